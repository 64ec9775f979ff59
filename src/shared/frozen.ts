/** Freezes an object and the lists in it, so that what was validated stays as it is. */
export function frozen<T extends object>(value: T): T {
  for (const key of Object.keys(value)) {
    const descriptor = Object.getOwnPropertyDescriptor(value, key);
    if (Array.isArray(descriptor?.value)) Object.freeze(descriptor.value);
  }
  return Object.freeze(value);
}
