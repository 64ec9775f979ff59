import type { CapabilityDescription, CapabilityProvider, ProviderHealth } from "../../host/capabilities.ts";
import { schemaProblem } from "../../host/schema.ts";
import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { inLine } from "../../shared/prompt.ts";
import { secondsOf } from "../provider-error.ts";
import { openApi } from "./api.ts";
import { baseOf, GITHUB_API, githubOrigin, shownBase } from "./base.ts";
import { SIGN_IN } from "./failure.ts";
import { ISSUES } from "./issues.ts";
import type { Input, Operation } from "./operation.ts";
import { PULLS } from "./pulls.ts";
import { REPOS } from "./repos.ts";
import { deviceSignIn, PERMISSIONS, pasteSignIn, tokenPage } from "./sign-in.ts";

export interface GithubOptions {
  /** Of the REST API: `https://HOST/api/v3` for a server of one's own. */
  baseUrl?: string;
  seconds?: number;
  /** Of an app that has device flow turned on: then nobody has to paste a token. */
  clientId?: string;
}

/**
 * Issues, pull requests and files of GitHub, with a token that the vault has. GitHub knows no idempotency keys, so the key of a call
 * goes nowhere: that something happens once is kept by the host, and a change whose answer was lost is said to be unknown.
 */
export function githubProvider({ baseUrl = GITHUB_API, seconds, clientId }: GithubOptions = {}): CapabilityProvider {
  const base = () => baseOf(baseUrl);
  return {
    namespace: "github",
    from: `the REST API at ${shownBase(baseUrl)}`,
    origin: githubOrigin({ baseUrl, ...defined({ clientId }) }),
    seconds: secondsOf(seconds),
    describe: async () => ({ capabilities: DESCRIPTIONS, hasAuth: true }),
    async invoke({ capability, operation: name, input: given, credential }, { signal }) {
      const operation = operationOf(capability, name);
      const input = structuredClone(given ?? {});
      const problem = await schemaProblem(operation.input, input);
      if (problem !== undefined) throw new SkillError("input-invalid", { message: problem });
      const { api } = base();
      const token = credential?.secret["token"];
      if (typeof token !== "string") {
        throw new SkillError("auth-needed", { message: NOBODY, fix: SIGN_IN });
      }
      return { output: await operation.run(openApi({ base: api, token, signal }), input as Input) };
    },
    async health({ isSignedIn }): Promise<ProviderHealth> {
      try {
        const make = `make a token at ${tokenPage(base())} (${PERMISSIONS})`;
        if (isSignedIn) return { isReady: true };
        const steps = clientId === undefined ? [make, `${SIGN_IN}, and paste it`] : [`${SIGN_IN}, and do what it says`];
        return isSignedIn === false ? { isReady: false, message: NOBODY, steps } : { isReady: true, steps };
      } catch (error) {
        if (!(error instanceof SkillError)) throw error;
        return { isReady: false, message: error.message, ...(error.fix ? { steps: [error.fix] } : {}) };
      }
    },
    auth: clientId === undefined ? pasteSignIn(base) : deviceSignIn(base, clientId),
  };
}

const NOBODY = "Nobody is signed in to GitHub";

const CAPABILITIES: Readonly<Record<string, { description: string; operations: Readonly<Record<string, Operation>> }>> =
  {
    "github.issues": {
      description: "Issues of GitHub: reads, searches, opens, changes and comments on them.",
      operations: ISSUES,
    },
    "github.pulls": {
      description:
        "Pull requests of GitHub: reads them with files, reviews and checks; comments, reviews, opens and merges.",
      operations: PULLS,
    },
    "github.repos": {
      description: "Repositories of GitHub: which there are, and the text files in them.",
      operations: REPOS,
    },
  };

const DESCRIPTIONS: readonly CapabilityDescription[] = Object.entries(CAPABILITIES).map(
  ([id, { description, operations }]) => ({
    id,
    description,
    operations: Object.entries(operations).map(([name, operation]) => ({
      name,
      description: operation.description,
      mutating: operation.mutating ?? false,
      inputSchema: operation.input,
      outputSchema: operation.output,
      ...(operation.isReversible === undefined ? {} : { isReversible: operation.isReversible }),
    })),
  }),
);

function operationOf(capability: string, name: string): Operation {
  const operations = Object.hasOwn(CAPABILITIES, capability) ? CAPABILITIES[capability]?.operations : undefined;
  const operation = operations && Object.hasOwn(operations, name) ? operations[name] : undefined;
  if (operation) return operation;
  const known = operations ? Object.keys(operations) : Object.keys(CAPABILITIES);
  throw new SkillError("input-invalid", {
    message: `GitHub has no ${inLine(capability, 64)} ${inLine(name, 64)}`,
    fix: `there are: ${known.join(", ")}`,
  });
}
