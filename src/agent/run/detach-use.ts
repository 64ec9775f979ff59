import type { Catalog } from "../../catalog/catalog.ts";
import { type HostOptions, tryCompleteHost } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import { computeSkillDigest } from "../../skill/source/skill-copy.ts";
import type { NewRun } from "../../store/run-rules.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findDenials } from "../policy/skill-policies.ts";
import { createHostRedactor, createProblemRedactor, redactData, redactNewRun } from "./redaction.ts";
import { readUseInput } from "./run-inputs.ts";
import { createRunId } from "./run-result.ts";
import {
  createInputProblem,
  createUseRecord,
  describeUnknownSkill,
  findInvocationDenials,
  type UseRequest,
  type UseStart,
} from "./use-skill.ts";

/** A use that is recorded now and done later, by another process. */
export interface DetachedUse {
  run: NewRun;
  /** The first step: it binds the run to the copy of the skill that was found here. */
  start: UseStart;
}

/** Prepares a use for another process. Returns the refusals if the skill is unknown or hidden from the caller, or the input does not fit. */
export async function prepareDetachedUse(
  catalog: Catalog,
  options: HostOptions,
  request: UseRequest,
): Promise<DetachedUse | { refusals: readonly Problem[] }> {
  const { host, problem } = tryCompleteHost(options);
  if (problem) return { refusals: [problem] };
  const skill = catalog.find(String(request.skill));
  if (!skill) return { refusals: [describeUnknownSkill(String(request.skill), catalog, host)] };
  await skill.fetch?.("all");
  // What the skill needs of a machine is checked by the process that does it.
  const denied = [
    ...findInvocationDenials(skill, request.by),
    ...findDenials(skill, host, "use").filter(({ kind }) => kind === "access"),
  ];
  const read = await readUseInput(skill, request);
  const redactor = createHostRedactor(host);
  if (denied.length > 0 || "problem" in read) {
    const refusals = [...denied, ...("problem" in read ? [createInputProblem(read.problem, skill)] : [])];
    return { refusals: refusals.map(createProblemRedactor(redactor)) };
  }
  const id = createRunId();
  const input = redactData(redactor, read.value);
  return {
    run: redactNewRun(redactor, createUseRecord({ host, request, id }, sanitizeLine(skill.name, 64))),
    start: { digest: await computeSkillDigest(skill), input, hasTakenContext: read.hasTakenContext ?? false },
  };
}
