// Uses every entry point that needs no other package, with the types that a program relies on.

import { defineSkill, discover, type Host, type HostPolicy, openSession, Tool, useSkill } from "skillet";
import type { Denial } from "skillet/agent";
import * as claude from "skillet/claude";
import * as install from "skillet/clients";
import * as provider from "skillet/provider";
import { addSkills } from "skillet/remote";
import * as sandbox from "skillet/sandbox";

const policy: HostPolicy = (skill, { caller, purpose }) =>
  skill.name === "deploy" && purpose === "use" && caller.userId !== "ann" ? { message: "Only Ann." } : undefined;

export async function main(): Promise<string> {
  const found = await discover({ workspace: "." });
  const host: Host = { ...found, policies: [policy] };
  const session = openSession(found.catalog, host);
  const { content } = await useSkill(found.catalog, host, { skill: "x", message: "hi" });
  const denials: Denial[] = [];
  // @ts-expect-error: the types are there, and are not `any`.
  const wrong: number = content;
  return [content, wrong, denials, session.tools.length, defineSkill, Tool, addSkills].map(String).join();
}

export const modules = [claude, install, provider, sandbox];
