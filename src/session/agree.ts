import { type Approval, isForRun, wordOf } from "../host/approvals.ts";
import type { Host } from "../host/host.ts";
import { shownPath } from "../policy/shown-path.ts";
import { runId } from "../run/id.ts";
import { wordOn } from "../run/port.ts";
import { allSecrets } from "../run/secrets.ts";
import type { Taint } from "../run/taint.ts";
import { effectToAgree } from "../run/word.ts";
import { defined } from "../shared/defined.ts";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import { openHiding } from "../shared/redact.ts";
import type { Tool, ToolResult } from "../skill/tool.ts";
import type { SessionCallOptions } from "./session.ts";

/** Asks whether a call that changes something may be made. Gives what speaks against it. */
export type Agree = (tool: Tool, input: unknown, options: SessionCallOptions) => Promise<ToolResult | undefined>;

/** What somebody agreed to for the whole conversation is not asked again. `taint`: what it has read that others wrote. */
export function openAgreement(host: Host, taint: Taint): Agree {
  let run: string | undefined;
  const agreed = new Set<string>();
  return async (tool, input, { signal = new AbortController().signal, approve = host.approve }) => {
    if (!tool.effect) return undefined;
    run ??= runId();
    const hiding = openHiding(allSecrets(new Map(), host));
    const workspace = host.workspace === undefined ? undefined : shownPath(host.workspace, host);
    const inside = host.workspace === undefined ? [] : [host.workspace];
    const around = { run, skill: "", gates: [], agreed, hiding, workspace, taint, inside };
    const effect = await effectToAgree(around, tool, { input });
    if (!effect) return undefined;
    const hide = (text: string) => hiding.text(text);
    const ask = { effect, signal, hide, onAsked: () => {}, onGiven: () => {} };
    const word = await wordOn({ ...host, ...defined({ approve }) }, ask).catch(
      (error): Approval => ({ isApproved: false, reason: reason(error) }),
    );
    if (word && isForRun(effect, word)) agreed.add(wordOf(effect));
    if (word?.isApproved) return undefined;
    const why = word
      ? (word.reason ?? "it was not approved")
      : approve
        ? "it needs an approval, and its input is too long to be shown in full here"
        : "somebody has to agree to it, and nobody can be asked here";
    const content = inLine(`Tool '${tool.name}' was not called, since ${effect.reason}: ${hiding.text(why)}`, 512);
    return { content, isError: true, code: word ? "not-approved" : "approval-needed" };
  };
}
