import type { Host } from "../host/host.ts";
import type { Skill } from "../skill/skill.ts";
import type { Denial, Policy } from "./policy.ts";
import { tableOf } from "./table.ts";
import { quoted } from "./trust.ts";

/** Every capability that a skill declares is served here, for whoever calls it, and was given to it by the operator. */
export const seesCapabilities: Policy = (skill, host) => {
  const { capabilities: declared } = skill.manifest;
  const unserved = declared.filter((id) => !host.capabilities?.providerOf(id, skill));
  const hidden = declared.filter(
    (id) => !unserved.includes(id) && !host.capabilities?.isVisible(id, host.caller, skill),
  );
  const ungiven = declared.filter((id) => !unserved.includes(id) && !host.capabilities?.isGranted(id, skill));
  return [
    ...(unserved.length > 0 ? [nobodyServes(skill, unserved)] : []),
    ...(hidden.length > 0 ? [notHere(skill, hidden, host)] : []),
    ...(ungiven.length > 0 ? [notGiven(skill, ungiven)] : []),
  ];
};

function nobodyServes(skill: Skill, ids: readonly string[]): Denial {
  const bare = ids.filter((id) => !id.includes("."));
  if (bare.length > 0) {
    return {
      code: "capability-unavailable",
      kind: "setup",
      message: `Skill '${skill.name}' needs ${sayIds(bare)}, which no provider can serve without a namespace`,
      fix: `write a namespace before it in the skill, such as gog.${bare[0]}`,
    };
  }
  const tables = [...new Set(ids.map(namespaceOf))].map(providerTable);
  const own = tableOf(skill).replace(/\]$/, ".capability_provider]");
  return {
    code: "capability-unavailable",
    kind: "setup",
    message: `Skill '${skill.name}' needs ${sayIds(ids)}, which nobody serves here`,
    fix: `name the program that serves ${ids.length === 1 ? "it" : "them"}: command under ${[...tables, own].join(" or ")} in config.toml`,
  };
}

function notHere(skill: Skill, ids: readonly string[], { caller }: Host): Denial {
  const tables = [...new Set(ids.map(namespaceOf))].map(providerTable);
  const isCalled = caller?.chatType !== undefined;
  const chat = caller?.chatId === undefined ? "" : ` (its id is ${JSON.stringify(caller.chatId)})`;
  const where = isCalled ? `in this ${caller.chatType} chat${chat}` : "where nobody says who calls";
  const say = isCalled ? "" : "the program says who calls: caller of its host, with a chatType; ";
  return {
    code: "capability-unavailable",
    kind: "setup",
    message: `Skill '${skill.name}' needs ${sayIds(ids)}, which ${ids.length === 1 ? "is" : "are"} not there ${where}`,
    fix: `${say}${tables.join(" and ")} in config.toml ${tables.length === 1 ? "says" : "say"} in which chats: chat_types (private ones when left out), allow_chat_ids`,
  };
}

function notGiven(skill: Skill, ids: readonly string[]): Denial {
  return {
    code: "capability-not-granted",
    kind: "setup",
    message: `Skill '${skill.name}' was not given ${sayIds(ids)}`,
    fix: `look at what it does (skillet show ${quoted(skill.name)}), then run: skillet capability grant ${[skill.name, ...ids].map(quoted).join(" ")}`,
  };
}

function namespaceOf(id: string): string {
  return id.split(".")[0] ?? id;
}

function providerTable(namespace: string): string {
  return `[capabilities.providers.${/^[\w-]+$/.test(namespace) ? namespace : JSON.stringify(namespace)}]`;
}

function sayIds(ids: readonly string[]): string {
  return `the ${ids.length === 1 ? "capability" : "capabilities"} ${ids.join(", ")}`;
}
