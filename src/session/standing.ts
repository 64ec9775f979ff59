import type { LeftOut } from "../catalog/catalog.ts";
import type { Host } from "../host/host.ts";
import { placeOf } from "../host/trust.ts";
import { isTrusted } from "../policy/trust.ts";
import { changed } from "../run/changed.ts";
import type { Skill } from "../skill/skill.ts";
import { copySkill } from "../source/digest.ts";
import { listNow, relisted } from "../source/relisted.ts";
import { filesOf, stampOf } from "./stamp.ts";

/**
 * Returns why a skill's text is not given to models. Text of the user's own folders needs no decision, and text of a workspace one for
 * the workspace. Without that decision a workspace skill is served while it is exactly what was trusted.
 */
export function openStanding(host: Host): (skill: Skill) => LeftOut | undefined {
  const known = new Map<string, { stamp: string; why: LeftOut | undefined }>();
  return (skill) => {
    if (host.trust?.text.covers(skill)) return undefined;
    const [untrusted] = [isTrusted(skill, host) ?? []].flat();
    if (untrusted && skill.origin.scope === "workspace") return notApproved(skill);
    if (untrusted || host.trust?.standingOf(skill) !== "trusted") return untrusted;
    if (skill.origin.remote) return undefined; // Each file is verified when it is read: it is what was trusted.
    const place = placeOf(skill);
    // As they are now: what was added is served by its address before the sources are read again.
    const stamp = `${host.trust.entryOf(skill)?.at} ${stampOf(filesOf(skill, listNow(skill)))}`;
    const before = known.get(place);
    if (before?.stamp === stamp) return before.why;
    const why = isAsTrusted(skill, host) ? undefined : notAsTrusted(skill);
    known.set(place, { stamp, why });
    return why;
  };
}

function notApproved({ name, origin: { source } }: Skill): LeftOut {
  return {
    code: "untrusted",
    message: `Skill '${name}' (from ${source}) is text of this workspace, which the user has not approved`,
    fix: "the user runs: skillet trust --text .",
  };
}

function isAsTrusted(skill: Skill, { trust }: Host): boolean {
  try {
    const now = relisted(skill);
    return trust?.changesOf(now, copySkill(now)).length === 0;
  } catch {
    return false; // What cannot be compared is not what was trusted.
  }
}

/** A model reads it: the names of files that nobody has looked at are no part of it. */
function notAsTrusted(skill: Skill): LeftOut {
  return { ...changed(skill, []), message: `Skill '${skill.name}' is not what was trusted` };
}
