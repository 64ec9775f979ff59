import type { LeftOut } from "../catalog/catalog.ts";
import type { Host } from "../host/host.ts";
import { placeOf } from "../host/trust.ts";
import { isTrusted } from "../policy/trust.ts";
import { changed } from "../run/changed.ts";
import { asNotice } from "../run/notice.ts";
import { filesOf, stampOf } from "../session/stamp.ts";
import type { Skill } from "../skill/skill.ts";
import { copySkill } from "../source/digest.ts";

/**
 * Why a skill is not served: what came with a folder reaches the model of whoever opened it there, so it waits for a word, its text too, and
 * waits again when it is not what was trusted.
 */
export function openStanding(host: Host): (skill: Skill) => LeftOut | undefined {
  const known = new Map<string, { stamp: string; why: LeftOut | undefined }>();
  return (skill) => {
    const untrusted = [isTrusted(skill, host) ?? []].flat()[0];
    if (untrusted || host.trust?.standingOf(skill) !== "trusted") return untrusted;
    const place = placeOf(skill);
    const stamp = `${stampOf(filesOf(skill))} ${trustedAt(host, place)}`;
    const before = known.get(place);
    if (before?.stamp === stamp) return before.why;
    const why = changeOf(skill, host);
    known.set(place, { stamp, why });
    return why;
  };
}

function changeOf(skill: Skill, host: Host): LeftOut | undefined {
  try {
    const changes = host.trust?.changesOf(skill, copySkill(skill)) ?? [];
    return changes.length === 0 ? undefined : changed(skill, changes);
  } catch (error) {
    return asNotice(error); // What cannot be compared is not what was trusted.
  }
}

function trustedAt({ trust }: Host, place: string): string {
  return trust?.list().find(([trusted]) => trusted === place)?.[1].at ?? "";
}
