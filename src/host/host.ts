import type { Settings } from "./settings.ts";

/** What the embedding program decides. */
export interface Host {
  settings: Settings;
}

export const NO_SETTINGS: Settings = { skills: new Map(), defaults: { allowChatIds: [] }, sources: [] };
