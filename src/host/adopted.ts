import { join } from "node:path";
import { byText } from "../shared/text.ts";
import { isData } from "../skill/data.ts";
import { openLedger } from "./ledger.ts";

/** Folders with adopted skills that are not in the table of locations: nothing else leads to their locks. */
export interface AdoptedFolders {
  /** Real paths. Empty when the record cannot be read. */
  list(): string[];
  /** Throws a SkillError when it cannot be recorded. */
  add(folder: string): void;
}

export function openAdopted(skilletHome: string): AdoptedFolders {
  const ledger = openLedger({
    file: join(skilletHome, "adopted.json"),
    isEntry: (entry: unknown): entry is { at: string } => isData(entry) && typeof entry["at"] === "string",
    unreadable: { code: "adopted-unreadable", fix: "fix it, or remove it and adopt the skills again" },
  });
  return {
    list: () => Object.keys(ledger.entries()).sort(byText),
    add: (folder) =>
      ledger.change((entries) => {
        entries[folder] = { at: new Date().toISOString() };
      }),
  };
}
