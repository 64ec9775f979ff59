import type { ErrorCode } from "../codes/codes.ts";
import type { Denial, Policy } from "./policy.ts";
import { tableOf } from "./table.ts";

/** A skill that is sensitive, or says which chats it is for, is there in those alone. Where nobody says what a chat is, in none. */
export const fitsChatType: Policy = (skill, { caller }) => {
  const allowed = chatTypesOf(skill);
  const type = caller?.chatType;
  if (!allowed || (type !== undefined && allowed.includes(type.toLowerCase()))) return undefined;
  const only = `Skill '${skill.name}' is for ${allowed.join(" and ")} chats only`;
  return type === undefined
    ? denied(
        "chat-type",
        `${only}, and nobody said what this chat is`,
        "say what it is: --chat-type, or `caller.chatType` of the host",
      )
    : denied("chat-type", `${only}, and this one is ${type}`, `use it in a ${allowed.join(" or ")} chat`);
};

/** Where the configuration lists chats, the others cannot use it. */
export const fitsChatId: Policy = (skill, { settings, caller }) => {
  const own = settings.skills.get(skill.name)?.allowChatIds;
  const allowed = own ?? settings.defaults.allowChatIds;
  const id = caller?.chatId;
  if (allowed.length === 0 || (id !== undefined && allowed.includes(id))) return undefined;
  if (id === undefined) {
    const message = `Skill '${skill.name}' is for some chats only, and nobody said which this is`;
    return denied("chat-id", message, "say which: --chat-id, or `caller.chatId` of the host");
  }
  const table = own ? tableOf(skill) : "[skills.defaults]";
  const message = `Skill '${skill.name}' is not for the chat ${JSON.stringify(id)}`;
  return denied("chat-id", message, `add ${JSON.stringify(id)} to allow_chat_ids of ${table} in config.toml`);
};

/** What was meant to narrow it and cannot be understood narrows it as far as `sensitive` does. */
function chatTypesOf({ manifest: { access, sensitive, data } }: Parameters<Policy>[0]): string[] | undefined {
  const said = access.chatTypes ?? [];
  if (said.length > 0) return said.map((type) => type.toLowerCase());
  return sensitive || (data["access"] ?? null) !== null ? ["private"] : undefined;
}

function denied(code: ErrorCode, message: string, fix: string): Denial {
  return { code, kind: "access", message, fix };
}
