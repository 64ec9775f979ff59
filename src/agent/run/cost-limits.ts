import type { Host } from "../../config/host.ts";
import type { CostCeilings } from "../../config/limits.ts";
import { SkillError } from "../../errors/problem.ts";
import { SPENDING_PERIODS, type SpendingFilter } from "../../store/spending.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { TokenBudget } from "./agent-loop.ts";

/** The cost ceilings of one agent: its run, and what others have spent in the same day and month. */
export interface CostGuard {
  /** Throws a SkillError if the next model call may not be made. */
  check(): Promise<void>;
  /** Records what a model call cost; undefined if its price is unknown. */
  record(dollars: number | undefined): Promise<void>;
}

interface CostGuardOptions {
  host: Pick<Host, "settings" | "caller" | "spending">;
  skill: string;
  /** The name of the model, and whether its price is known. */
  model: { name: string; isPriced: boolean };
  budget: TokenBudget;
}

/** One set of ceilings, whose spending counts, and the key that sets it. */
interface CeilingRow {
  ceilings: CostCeilings | undefined;
  filter: SpendingFilter;
  key: string;
}

/** Creates the guard of an agent. Contract: reads the settings at each check, so that a change applies to a run under way. */
export function createCostGuard({ host, skill, model, budget }: CostGuardOptions): CostGuard {
  const listRows = (): CeilingRow[] => {
    const { limits, skills, serving } = host.settings;
    const { userId: user, tenant } = host.caller ?? {};
    const rows: CeilingRow[] = [
      { ceilings: limits.cost, filter: {}, key: "limits.cost" },
      { ceilings: skills.get(skill)?.cost, filter: { skill }, key: `skills.${skill}.limits.cost` },
    ];
    if (user !== undefined)
      rows.push({
        ceilings: serving.people?.get(user)?.cost,
        filter: { user },
        key: `server.people.${user}.limits.cost`,
      });
    if (tenant !== undefined)
      rows.push({
        ceilings: serving.tenants?.get(tenant)?.cost,
        filter: { tenant },
        key: `server.tenants.${tenant}.limits.cost`,
      });
    return rows.filter(({ ceilings }) => ceilings && Object.keys(ceilings).length > 0);
  };
  return {
    async check() {
      const rows = listRows();
      const [first] = rows;
      if (!first) return;
      // Without a price, nothing would ever be counted.
      if (!model.isPriced && model.name !== "runbook") throw createPriceError(model.name, first.key);
      for (const { ceilings = {}, filter, key } of rows) {
        if (ceilings.run !== undefined && (budget.cost ?? 0) >= ceilings.run)
          throw createCeilingError("run", ceilings.run, `${key}.run`);
        for (const period of SPENDING_PERIODS) {
          const max = ceilings[period];
          if (max === undefined || !host.spending) continue;
          if ((await host.spending.total(period, filter)) >= max)
            throw createCeilingError(period, max, `${key}.${period}`);
        }
      }
    },
    async record(dollars) {
      if (dollars === undefined || !host.spending) return;
      const { userId: user, tenant } = host.caller ?? {};
      try {
        await host.spending.add({ dollars, skill, ...omitUndefined({ user, tenant }) });
      } catch (error) {
        if (listRows().length > 0) throw error; // What is not recorded would not count against the ceiling.
      }
    },
  };
}

function createCeilingError(period: keyof CostCeilings, dollars: number, key: string): SkillError {
  const what = { run: "The run has cost", day: "Today's runs have cost", month: "This month's runs have cost" }[period];
  return new SkillError("cost-limit", {
    message: `${what} $${dollars} or more, the limit of ${key}`,
    fix:
      period === "run"
        ? `raise ${key} in config.toml`
        : `wait for the next ${period} (UTC), or raise ${key} in config.toml`,
  });
}

function createPriceError(model: string, key: string): SkillError {
  const name = model.slice(model.indexOf("/") + 1);
  return new SkillError("price-missing", {
    message: `${key} limits the cost, and the price of ${model} is unknown`,
    fix: "set its prices in dollars per million tokens",
    commands: [
      `skillet config set prices.${JSON.stringify(name)}.input 3`,
      `skillet config set prices.${JSON.stringify(name)}.output 15`,
    ],
  });
}
