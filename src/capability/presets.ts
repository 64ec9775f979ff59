import type { CapabilityProvider } from "../host/capabilities.ts";
import type { ProviderSettings } from "../host/capability-settings.ts";
import { defined } from "../shared/defined.ts";
import { githubOrigin } from "./github/base.ts";

/** A provider that is known by its name: what holds for it where the configuration says nothing else. */
export interface Preset {
  /** The shipped skill that switches it on, and is given what it serves. */
  skill: string;
  settings: ProviderSettings;
  /** One of ours, in place of a program. */
  open?(settings: ProviderSettings): Promise<CapabilityProvider>;
  /** Where the system behind that one is. Contract: the origin of what `open` opens. */
  originOf?(settings: ProviderSettings): string;
  /** What somebody has to do whose provider is not there, one step each. */
  steps: readonly string[];
}

/** One row a provider. */
export const PRESETS: Readonly<Record<string, Preset>> = {
  gog: {
    skill: "gog",
    settings: { command: ["gogcli", "bridge"] },
    steps: [
      "put a program called gogcli into your PATH that serves gog.email and gog.calendar (docs/providers.md says how it is asked)",
      "or name another one: skillet config set capabilities.providers.gog.command /path/to/program,argument",
      "then sign in: skillet auth login gog",
    ],
  },
  github: {
    skill: "github",
    settings: {},
    originOf: githubOrigin,
    open: async ({ baseUrl, clientId, seconds }) => {
      const { githubProvider } = await import("./github/provider.ts");
      return githubProvider(defined({ baseUrl, clientId, seconds }));
    },
    steps: ["sign in: skillet auth login github"],
  },
};

/** What is known of a namespace by its name. */
export function presetOf(namespace: string): Preset | undefined {
  return Object.hasOwn(PRESETS, namespace) ? PRESETS[namespace] : undefined;
}
