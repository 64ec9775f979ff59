import type { Diagnostic } from "../skill/diagnostic.ts";
import type { Origin, Scope, Skill } from "../skill/skill.ts";

export interface Loaded {
  skills: readonly Skill[];
  /** What is worth saying of the files that were looked at, also of those that are no skills. */
  diagnostics: readonly Diagnostic[];
}

/** Where skills come from. Contract: `load` never throws for what it finds; a broken file is a diagnostic. */
export interface Source {
  readonly name: string;
  readonly scope: Scope;
  /** The folder it reads, when it reads one. */
  readonly path?: string;
  load(): Loaded | Promise<Loaded>;
}

/** Skills defined in code. */
export function inlineSource(skills: readonly Skill[], options: { name?: string; scope?: Scope } = {}): Source {
  const { name = "inline", scope = "inline" } = options;
  const placed = skills.map((skill) => withOrigin(skill, { ...skill.origin, scope, source: name }));
  return { name, scope, load: () => ({ skills: placed, diagnostics: [] }) };
}

/** The same skill from another place. What it does stays its own: a skill need not be a plain object. */
export function withOrigin(skill: Skill, origin: Origin): Skill {
  return {
    name: skill.name,
    description: skill.description,
    get manifest() {
      return skill.manifest;
    },
    origin,
    findings: skill.findings,
    asksOfHost: () => skill.asksOfHost?.() ?? true,
    limitsInvocation: () => skill.limitsInvocation?.() ?? true,
    body: () => skill.body(),
    files: () => skill.files(),
    examples: () => skill.examples(),
    read: (path) => skill.read(path),
    ...(skill.fetch ? { fetch: (files) => skill.fetch?.(files) ?? Promise.resolve() } : {}),
  };
}
