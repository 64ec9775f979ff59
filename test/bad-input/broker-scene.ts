import { createCapabilities } from "../../src/capabilities/configured-capabilities.ts";
import type { ApprovalRequest } from "../../src/host/approval.ts";
import type { CapabilityProvider } from "../../src/host/capability-contract.ts";
import { memoryNotes } from "../support/broker.ts";
import { type Parts, useScene } from "../support/use.ts";

export const CALLER = { userId: "ada", chatType: "private", chatId: "7" };
export const NOTES = "capabilities: [notes.notes]\n";
export const GIVEN = '[skills.x]\ncapabilities = ["notes.notes"]\n';
export const INVOKE = "skillet-sb capability invoke -c notes.notes -o";

export interface BadParts extends Partial<Parts> {
  provider?: CapabilityProvider;
}

/** Runs skill `x`, which is granted notes, with a model that runs these commands in its sandbox, one per turn. Returns the outcomes. */
export async function commandScene(commands: readonly string[], { provider, ...parts }: BadParts = {}) {
  const seen: string[] = [];
  const left = [...commands];
  const made = await useScene({
    skills: { x: { more: NOTES } },
    config: GIVEN,
    turns: ({ results }) => {
      const last = results.at(-1);
      if (last) seen.push(last.content);
      const command = left.shift();
      return command === undefined ? "done" : [{ tool: "bash", input: { command } }];
    },
    ...parts,
  });
  const notes = memoryNotes();
  const capabilities = createCapabilities({ ...made.found, providers: [provider ?? notes.provider] });
  const effects: ApprovalRequest[] = [];
  const approve = async (effect: ApprovalRequest) => {
    effects.push(effect);
    return { isApproved: true };
  };
  return { ...made, notes, capabilities, seen, effects, host: { capabilities, approve, caller: CALLER } };
}

/** JavaScript as a command in a sandbox: `ask(params)` sends a call and does not wait, `connection()` sends nothing. */
export function code(source: string): string {
  return `cat > /tmp/code.cjs <<'END'
const { connect } = require("node:net");
const { SKILLET_CAPABILITY_SOCKET: path, SKILLET_CAPABILITY_TOKEN: token } = process.env;
const connection = () => connect(path).on("error", () => {});
const ask = (params) => {
  const nonce = \`nonce-\${Math.random()}\`.replace(".", "-");
  return connection().on("data", (bytes) => process.stdout.write(bytes)).end(\`\${JSON.stringify({ v: 1, token, nonce, method: "invoke", params })}\\n\`);
};
${source}
END
PATH=/opt/skillet/bin:$PATH node --v8-pool-size=0 /tmp/code.cjs`;
}
