import type { Endpoint } from "../host/sandbox.ts";
import { readEndpoint } from "../sandbox/endpoint.ts";
import { SkillError } from "../shared/error.ts";

/** What the operator wrote, as hosts and ports. Throws a SkillError for what is none. */
export function endpointsIn(written: readonly string[]): Endpoint[] {
  return written.map((text) => {
    const endpoint = readEndpoint(text);
    if (endpoint) return endpoint;
    throw new SkillError("network-endpoint", {
      message: `"${text}" in the configuration is no host with a port`,
      fix: 'name one host and one port each, as "api.example.com:443"',
    });
  });
}
