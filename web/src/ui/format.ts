/** Numbers and times for people. */

export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function ago(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000;
  if (Number.isNaN(seconds)) return '–';
  if (seconds < 5) return 'now';
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

export function count(value: number): string {
  return value.toLocaleString('en');
}

export function clock(at: string): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? '' : time.toLocaleTimeString(undefined, { hour12: false });
}

/** A day and its time. */
export function date(at: string): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime())
    ? ''
    : time.toLocaleString(undefined, {
        month: 'short',
        day: 'numeric',
        hour: '2-digit',
        minute: '2-digit',
        hour12: false
      });
}

const CAUSES: Record<string, string> = {
  killed_by_user: 'stopped',
  idle_culled: 'unused for too long',
  ttl: 'its lifetime had passed',
  gateway_stopped: 'the gateway was stopped'
};

/** Why a process or a session ended, in words. */
export function cause(reason: string): string {
  return CAUSES[reason] ?? reason.replace(/\boom\b/, 'out of memory');
}
