/** Whether a picture shows anything. */

/** Pixels of each side that are looked at; a line of a larger picture is still seen in them. */
const SIDE = 256;

/** Whether nothing of a picture that was loaded can be seen on the white plate that it stands on. */
export function isBlank(picture: HTMLImageElement): boolean {
  const canvas = document.createElement('canvas');
  canvas.width = SIDE;
  canvas.height = SIDE;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  if (!context) return false;
  context.fillStyle = '#fff';
  context.fillRect(0, 0, SIDE, SIDE);
  try {
    context.drawImage(picture, 0, 0, SIDE, SIDE);
    const { data } = context.getImageData(0, 0, SIDE, SIDE);
    return data.every(value => value === 255);
  } catch {
    // It cannot be read back: nothing is said of it.
    return false;
  }
}
