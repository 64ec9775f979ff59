import type { Discovered } from "../host/discover.ts";

/** The servers that are configured, by name. */
export function serversOf({ settings }: Discovered): { name: string; isEnabled: boolean }[] {
  return [...settings.mcp].map(([name, { enabled }]) => ({ name, isEnabled: enabled !== false }));
}

/** The same in a line. */
export function sayServers(found: Discovered): string {
  const names = serversOf(found).map(({ name, isEnabled }) => (isEnabled ? name : `${name} (switched off)`));
  return names.join(", ");
}
