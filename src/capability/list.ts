import type { CapabilityProvider } from "../host/capabilities.ts";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import type { ListResult } from "./protocol.ts";
import { describe, type Scene } from "./scene.ts";

type Listed = ListResult["capabilities"][number];

/** What the skill declares, and of each what can be done with it, or why nothing can. */
export async function listCapabilities(scene: Scene): Promise<ListResult> {
  return { capabilities: await Promise.all(scene.run.skill.manifest.capabilities.map((id) => one(scene, id))) };
}

async function one(scene: Scene, id: string): Promise<Listed> {
  const { run, capabilities } = scene;
  const provider = capabilities.providerOf(id, run.skill);
  if (!capabilities.isGranted(id, run.skill)) return unready(id, "the operator has not given it to this skill");
  if (!provider || !capabilities.isVisible(id, run.caller, run.skill))
    return unready(id, "it is not there for this caller");
  return described(scene, id, provider).catch((error) => unready(id, run.hide(reason(error))));
}

async function described(scene: Scene, id: string, provider: CapabilityProvider): Promise<Listed> {
  const found = (await describe(scene, provider)).capabilities.find((served) => served.id === id);
  if (!found) return unready(id, "its provider does not serve it");
  const operations = found.operations.map(({ name, description, mutating, inputSchema }) => ({
    ...{ name, description: inLine(description, 500), mutating },
    input: inputSchema,
  }));
  return { id, description: inLine(found.description, 500), is_ready: true, operations };
}

function unready(id: string, problem: string): Listed {
  return { id, description: "", is_ready: false, problem: inLine(problem, 500), operations: [] };
}
