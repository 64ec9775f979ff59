import type { Host } from "../host/host.ts";
import type { Notice } from "../host/sandbox.ts";
import { placeOf } from "../host/trust.ts";
import { defined } from "../shared/defined.ts";
import { count } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import type { Gate } from "./gate.ts";
import type { Budget, Within } from "./loop-options.ts";
import type { Taint } from "./taint.ts";

/** The runs that a run was started by, outermost first, and what they leave to it. */
export interface Chain {
  /** How many they are. */
  depth: number;
  /** The run that started it. */
  parent?: string;
  /** Whose skills they follow. */
  skills: readonly { name: string; place: string }[];
  gates: readonly Gate[];
  /** The tools that its caller has: it gets no other. */
  offered?: ReadonlySet<string>;
  budget?: Budget;
  /** The model that whoever started all of it asked for by name. */
  asked?: string;
  /** The alias of its caller's model. */
  model?: string;
  /** What its caller has read that others wrote: what it is told may come from there. */
  taint?: Taint;
  /** Why none of these runs may call anything any more: the skill of one was disabled since. */
  revoked?(): Notice | undefined;
}

/** Nobody's but the user's. */
export const TOP: Chain = { depth: 0, skills: [], gates: [] };

/** Returns the chain for a use that a tool of a conversation starts. */
export function chainWithin({ parent, budget, asked, taint }: Within): Chain {
  return { ...TOP, parent, budget, taint, ...defined({ asked, model: asked }) };
}

interface Link {
  id: string;
  skill: Skill;
  budget: Budget;
  asked: string | undefined;
  model: string;
  revoked(): Notice | undefined;
}

export function chainTo(chain: Chain, to: Link): Chain {
  const { id, skill, budget } = to;
  return {
    depth: chain.depth + 1,
    parent: id,
    skills: [...chain.skills, { name: skill.name, place: placeOf(skill) }],
    gates: chain.gates,
    budget,
    model: to.model,
    revoked: to.revoked,
    ...defined({ asked: to.asked ?? chain.asked }),
  };
}

/** Why a skill may not be used from within these runs: it is one of them, or they are too many. */
export function chainDenial(chain: Chain, skill: Skill, { settings: { limits } }: Host): Notice[] {
  const place = placeOf(skill);
  const names = [...chain.skills.map(({ name }) => name), skill.name].join(" → ");
  if (chain.skills.some((above) => above.name === skill.name && above.place === place)) {
    return [
      {
        code: "cycle",
        message: `Skill '${skill.name}' is at work already: ${names}`,
        fix: "do it without calling it again",
      },
    ];
  }
  if (chain.depth < limits.nesting) return [];
  return [
    {
      code: "nested-too-deep",
      message: `Skills may call skills ${count(limits.nesting, "run")} deep, and this would be one more: ${names}`,
      fix: "do it without another skill; the operator's limit is [limits] nesting in config.toml",
    },
  ];
}
