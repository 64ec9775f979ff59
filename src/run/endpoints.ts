import type { Endpoint } from "../host/sandbox.ts";
import { readEndpoint } from "../sandbox/endpoint.ts";
import { SkillError } from "../shared/error.ts";

const UNIX = "unix:";

/** Sockets and named pipes of the workspace that the operator granted, as paths: `unix:tmp/db.sock`. */
export function socketsIn(written: readonly string[]): string[] {
  return written.filter((text) => text.startsWith(UNIX)).map((text) => text.slice(UNIX.length));
}

/** What the operator wrote, as hosts and ports. Throws a SkillError for what is none. */
export function endpointsIn(written: readonly string[]): Endpoint[] {
  const endpoints = written.filter((text) => !text.startsWith(UNIX));
  return endpoints.map((text) => {
    const endpoint = readEndpoint(text);
    if (endpoint) return endpoint;
    throw new SkillError("network-endpoint", {
      message: `"${text}" in the configuration is no host with a port`,
      fix: 'name one host and one port each, as "api.example.com:443"',
    });
  });
}
