// Numbers as people read them.

export function bytes(number) {
  if (number < 1e6) return `${Math.round(number / 1e3)} kB`;
  if (number < 1e9) return `${(number / 1e6).toFixed(number < 1e7 ? 1 : 0)} MB`;
  return `${(number / 1e9).toFixed(number < 1e11 ? 1 : 0)} GB`;
}

export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days`;
}

export const count = (number) => number.toLocaleString("en");

export const rate = (number) => (number < 100 ? number.toFixed(1) : count(Math.round(number)));

export const percent = (share) => `${Math.round(share * 100)} %`;

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
