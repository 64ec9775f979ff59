import type { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import type { CapabilityProvider } from "../host/capabilities.ts";
import { SkillError } from "../shared/error.ts";
import { type AnyRequest, LARGEST_REQUEST, readRequest, UNSUPPORTED, writeAnswer, writeError } from "./envelope.ts";
import { asProviderError } from "./provider-error.ts";

/** What a program has; `process` will do. */
export interface ServedBy {
  stdin: Readable;
  stdout: Writable;
  /** Where what the provider prints by itself goes, which would spoil the answer. Nowhere, when left out. */
  stderr?: Writable;
}

/** Makes a program of a provider: reads one request, writes one answer, and nothing else comes to stdout. Never throws. */
export async function serveProvider(provider: CapabilityProvider, { stdin, stdout, stderr }: ServedBy): Promise<void> {
  const write = stdout.write.bind(stdout);
  stdout.write = ((...given: Parameters<typeof stdout.write>) => {
    const isDone = given.findLast((part) => typeof part === "function") as ((error?: null) => void) | undefined;
    if (stderr) return stderr.write(...given);
    isDone?.();
    return true;
  }) as typeof stdout.write;
  const answer = await answerTo(provider, stdin);
  await new Promise<void>((resolve) => write(answer, () => resolve()));
}

async function answerTo(provider: CapabilityProvider, stdin: Readable): Promise<string> {
  let id = NO_ID;
  try {
    const request = readRequest(await readAll(stdin));
    id = request.id;
    return await done(provider, request);
  } catch (error) {
    const isOwn = error instanceof SkillError && error.code === UNSUPPORTED;
    return writeError(id, isOwn ? error : asProviderError(error, provider.namespace));
  }
}

/** For what is no request, and so has none. */
const NO_ID = "none";

async function done(provider: CapabilityProvider, request: AnyRequest): Promise<string> {
  const { method, namespace, context, deadlineMs } = request;
  if (namespace !== provider.namespace) {
    throw new SkillError("not-found", {
      message: `This is the provider of ${provider.namespace}, and was asked for another namespace`,
      fix: `name it under [capabilities.providers.${provider.namespace}]`,
    });
  }
  const options = { signal: AbortSignal.timeout(deadlineMs) };
  switch (method) {
    case "describe": {
      const { capabilities, hasAuth } = await provider.describe(options);
      const auth = hasAuth ? { auth: { kinds: ["link", "device", "paste"] as const } } : {};
      return writeAnswer(request, { capabilities, ...auth });
    }
    case "invoke": {
      const { idempotencyKey: key, ...call } = request.params;
      const whose = { run: "", skill: "", source: "", ...context };
      return writeAnswer(request, await provider.invoke({ ...call, key, context: whose }, options));
    }
    case "health":
      return writeAnswer(request, await provider.health({ ...options, ...request.params }));
    case "auth.begin":
      return writeAnswer(request, await authOf(provider).begin({ ...request.params, context }, options));
    case "auth.complete": {
      const credential = await authOf(provider).complete({ ...request.params, context }, options);
      return writeAnswer(request, { credential });
    }
    case "auth.poll": {
      const credential = await authOf(provider).poll?.({ ...request.params, context }, options);
      return writeAnswer(request, credential ? { credential } : {});
    }
  }
}

function authOf({ auth, namespace }: CapabilityProvider) {
  if (auth) return auth;
  throw new SkillError(UNSUPPORTED, { message: `Nobody signs in at the provider of ${namespace}` });
}

async function readAll(stdin: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  stdin.on("data", (chunk: Buffer | string) => {
    size += chunk.length;
    if (size <= LARGEST_REQUEST) chunks.push(Buffer.from(chunk));
  });
  await finished(stdin, { writable: false });
  if (size <= LARGEST_REQUEST) return Buffer.concat(chunks);
  throw new SkillError("input-invalid", {
    message: `The request is larger than ${LARGEST_REQUEST / 1024 / 1024} MiB`,
    fix: "ask for less at once",
  });
}
