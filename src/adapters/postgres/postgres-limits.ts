import { setTimeout as sleep } from "node:timers/promises";
import { getRequestBurst, MAX_PAUSE_MS, type ProviderLimit } from "../../agent/models/model-providers.ts";
import type { Database, Statement } from "./database.ts";

/**
 * Creates the limit of an account that all processes of the database share. `local` limits this process alone: while the database is
 * unavailable, and for its own pauses, which it learns of first.
 */
export function createPostgresProviderLimit(database: Database, digest: string, local: ProviderLimit): ProviderLimit {
  const account = database.sealer.digest(digest);
  const write = (statement: Statement) => {
    database.query(statement).catch(() => {});
  };
  const take = async (requests: number | undefined, tokens: number | undefined): Promise<number> => {
    if (requests === undefined && tokens === undefined) {
      const [pause] = await database.query({ name: "skillet-pause", text: READ_PAUSE, values: [account] });
      return Number(pause?.["ms"] ?? 0);
    }
    const burst = getRequestBurst(requests);
    const values = [account, requests ?? null, burst ?? null, tokens ?? null];
    for (;;) {
      const [row] = await database.query({ name: "skillet-limit", text: TAKE, values });
      if (row) return Number(row["ms"]);
      await database.query({ text: ADD, values: [account] });
    }
  };
  return {
    async wait(rates, signal) {
      for (;;) {
        await local.wait({}, signal);
        let ms: number;
        try {
          ms = await Promise.race([take(rates.requestsPerMinute, rates.tokensPerMinute), rejectAfter(MAX_TAKE_MS)]);
        } catch {
          return local.wait(rates, signal);
        }
        if (ms <= 0) return;
        // A pause or another process may change the bucket meanwhile.
        await sleep(Math.min(Math.ceil(ms), MAX_WAIT_MS), undefined, { signal });
      }
    },
    spend(tokens) {
      local.spend(tokens);
      write({ text: SPEND, values: [account, tokens] });
    },
    pause(ms) {
      local.pause(ms);
      write({ text: PAUSE, values: [account, Math.min(ms, MAX_PAUSE_MS)] });
    },
  };
}

const MAX_WAIT_MS = 5000;
/** A database that does not answer must not stop the runs. */
const MAX_TAKE_MS = 5000;

function rejectAfter(ms: number): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error("no answer")), ms).unref();
  });
}

const READ_PAUSE = `select extract(epoch from paused_until - clock_timestamp())::float8 * 1000 as ms
  from skillet.provider_limits where account = $1 and paused_until > clock_timestamp()`;

const ADD = "insert into skillet.provider_limits (account) values ($1) on conflict do nothing";
const SPEND = "update skillet.provider_limits set tokens = tokens - $2 where account = $1 and tokens is not null";
const PAUSE = `insert into skillet.provider_limits as l (account, paused_until)
  values ($1, clock_timestamp() + make_interval(secs => $2::float8 / 1000))
  on conflict (account) do update set paused_until = greatest(l.paused_until, excluded.paused_until)`;

/**
 * Refills both buckets to the clock of the server, and takes one request if nothing is to be waited for. Returns the milliseconds to wait.
 * $2: requests in a minute, $3: requests at once, $4: tokens in a minute; null: no limit.
 */
const TAKE = `
with here as (
  select * from skillet.provider_limits where account = $1 for update
), refilled as (
  select account, paused_until, least($3::float8, coalesce(requests, $3::float8) + $2::float8 * age) as requests,
    least($4::float8, coalesce(tokens, $4::float8) + $4::float8 * age) as tokens
  from here, lateral (select greatest(0, extract(epoch from clock_timestamp() - refilled_at)::float8 / 60) as age) passed
), judged as (
  select *, greatest(0, coalesce(extract(epoch from paused_until - clock_timestamp())::float8 * 1000, 0),
    coalesce((1 - requests) / $2::float8, 0) * 60000, coalesce((least(1, $4::float8) - tokens) / $4::float8, 0) * 60000) as ms
  from refilled
)
update skillet.provider_limits l set requests = j.requests - case when j.ms <= 0 then 1 else 0 end, tokens = j.tokens,
  refilled_at = clock_timestamp() from judged j where l.account = j.account returning j.ms`;
