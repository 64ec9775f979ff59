import type { Catalog } from "../../catalog/catalog.ts";
import type { Skill } from "../../skill/skill.ts";

/** A catalog shared by many conversations. If a reload finds no change, it stays the same object. */
interface SharedCatalog {
  /** Rate-limits `reload`, also on derived catalogs, if reading is slow: any client may call it. */
  readonly catalog: Catalog;
  /** Reads the sources again without rate limit. A read in progress may have missed a change, so a new one starts. */
  reloadNow(): Promise<Catalog>;
}

export function createSharedCatalog(first: Catalog, now = () => performance.now()): SharedCatalog {
  let reading: Promise<Catalog> | undefined;
  /** The read that starts when the current one ends. */
  let next: Promise<Catalog> | undefined;
  let last: Promise<Catalog> | undefined;
  let restsUntil = 0;
  const readSource = async (): Promise<Catalog> => {
    const read = await source.reload();
    if (!isSameCatalog(source, read)) {
      source = read;
      latest = share(read);
    }
    return latest;
  };
  const read = (): Promise<Catalog> => {
    const from = now();
    next = undefined;
    reading = readSource().finally(() => {
      const to = now();
      restsUntil = to + getRestMs(to - from);
      reading = undefined;
    });
    last = reading;
    return reading;
  };
  const resting = () => (now() < restsUntil ? last : undefined);
  const reload = () => reading ?? next ?? resting() ?? read();
  const renew = () => {
    if (reading) next ??= reading.then(read, read);
    return next ?? read();
  };
  const share = (catalog: Catalog): Catalog => ({ ...catalog, reload });
  let source = first;
  let latest = share(first);
  return { catalog: latest, reloadNow: renew };
}

/** Returns the pause after a read: at most a tenth of the time is spent reading, but a new skill appears within seconds. */
function getRestMs(took: number): number {
  return took <= QUICK_READ_MS ? 0 : Math.min(took * 9, MAX_REST_MS);
}

const QUICK_READ_MS = 20;
const MAX_REST_MS = 2000;

/** Returns true if two catalogs have the same skills and findings, and the files listed from the first are unchanged. */
export function isSameCatalog(a: Catalog, b: Catalog): boolean {
  if (a.skills.length !== b.skills.length || a.shadowed.length !== b.shadowed.length) return false;
  if (JSON.stringify(a.diagnostics) !== JSON.stringify(b.diagnostics)) return false;
  return a.skills.every((skill, index) => {
    const other = b.skills[index];
    if (skill.hasOtherFiles?.()) return false;
    if (!other || skill.name !== other.name || skill.origin.file !== other.origin.file) return false;
    if (skill.origin.folderId !== other.origin.folderId) return false;
    if (skill.origin.remote?.digest !== other.origin.remote?.digest) return false;
    if (skill.origin.remote?.uri !== other.origin.remote?.uri) return false;
    if (skill.origin.fileId !== other.origin.fileId && !canReadSkill(skill)) return false;
    return JSON.stringify(skill.manifest.data) === JSON.stringify(other.manifest.data);
  });
}

/** Returns true if its file can still be read: a link to a changed file cannot. */
function canReadSkill(skill: Skill): boolean {
  try {
    skill.body();
    return true;
  } catch {
    return false;
  }
}
