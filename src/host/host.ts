import type { Settings } from "./settings.ts";

/** What the embedding program decides. */
export interface Host {
  settings: Settings;
}
