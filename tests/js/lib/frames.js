// The three WebSocket framings of the Jupyter kernel protocol, written from its documentation and
// independent of both the gateway and @jupyterlab/services.

/** The subprotocol name of the v1 framing. */
export const V1 = 'v1.kernel.websocket.jupyter.org';

const text = new TextEncoder();

/** Legacy text frame: the whole message as JSON. */
export function legacyText(message) {
  return JSON.stringify(message);
}

/** Legacy binary frame: u32 big-endian count and offsets, JSON, buffers. */
export function legacyBinary(message, buffers) {
  return pack32([text.encode(JSON.stringify(message)), ...buffers]);
}

/** v1 frame: u64 little-endian count and offsets, channel, four JSON parts, buffers. */
export function v1({ channel, header, parent_header, metadata, content }, buffers = []) {
  const json = [header, parent_header, metadata, content].map(part => text.encode(JSON.stringify(part)));
  return pack64([text.encode(channel), ...json, ...buffers]);
}

/** The parts behind a u32 big-endian table with their offsets; the end is not in the table. */
export function pack32(parts) {
  const table = Buffer.alloc(4 * (parts.length + 1));
  table.writeUInt32BE(parts.length, 0);
  let offset = table.length;
  parts.forEach((part, i) => {
    table.writeUInt32BE(offset, 4 * (i + 1));
    offset += part.length;
  });
  return Buffer.concat([table, ...parts]);
}

/** The parts behind a u64 little-endian table with their offsets; the end is the last entry. */
export function pack64(parts) {
  const table = Buffer.alloc(8 * (parts.length + 2));
  table.writeBigUInt64LE(BigInt(parts.length + 1), 0);
  let offset = table.length;
  parts.forEach((part, i) => {
    table.writeBigUInt64LE(BigInt(offset), 8 * (i + 1));
    offset += part.length;
  });
  table.writeBigUInt64LE(BigInt(offset), 8 * (parts.length + 1));
  return Buffer.concat([table, ...parts]);
}

/** Reads any frame into a message with `channel`, `buffers` and `frame` ("text", "binary" or "v1"). */
export function decode(data, isBinary, isV1) {
  if (!isBinary) return { ...JSON.parse(data.toString()), frame: 'text' };
  return isV1 ? decodeV1(data) : decodeBinary(data);
}

function decodeBinary(data) {
  const count = data.readUInt32BE(0);
  const parts = [];
  for (let i = 0; i < count; i++) {
    const start = data.readUInt32BE(4 * (i + 1));
    const end = i + 1 < count ? data.readUInt32BE(4 * (i + 2)) : data.length;
    parts.push(data.subarray(start, end));
  }
  return { ...JSON.parse(parts[0].toString()), buffers: parts.slice(1), frame: 'binary' };
}

function decodeV1(data) {
  const count = Number(data.readBigUInt64LE(0));
  const offset = i => Number(data.readBigUInt64LE(8 * (i + 1)));
  const parts = [];
  for (let i = 0; i + 1 < count; i++) parts.push(data.subarray(offset(i), offset(i + 1)));
  const [header, parent_header, metadata, content] = parts.slice(1, 5).map(part => JSON.parse(part.toString()));
  return { channel: parts[0].toString(), header, parent_header, metadata, content, buffers: parts.slice(5), frame: 'v1' };
}
