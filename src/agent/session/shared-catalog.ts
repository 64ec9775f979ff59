import type { Catalog } from "../../catalog/catalog.ts";
import type { Skill } from "../../skill/skill.ts";

/** A catalog for many conversations. One that says the same after it was read again stays the same object. */
interface SharedCatalog {
  /** Its `reload`, and that of all that come of it, reads only now and then where reading takes long: anybody may ask for it. */
  readonly catalog: Catalog;
  /** Reads it again in any case, from now on: what is being read already may have missed what has changed. */
  renew(): Promise<Catalog>;
}

export function createSharedCatalog(first: Catalog, now = () => performance.now()): SharedCatalog {
  let reading: Promise<Catalog> | undefined;
  /** Begins when the one that is under way has ended. */
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
  return { catalog: latest, renew };
}

/** A tenth of the time is spent on reading at most; but who waits for a new skill waits for seconds at most. */
function getRestMs(took: number): number {
  return took <= QUICK_READ_MS ? 0 : Math.min(took * 9, MAX_REST_MS);
}

const QUICK_READ_MS = 20;
const MAX_REST_MS = 2000;

/** Whether two catalogs hold the same skills with the same to say, and with the files that were listed of the first ones. */
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

/** Whether its file is still one that is read: a link to a file that changed is not. */
function canReadSkill(skill: Skill): boolean {
  try {
    skill.body();
    return true;
  } catch {
    return false;
  }
}
