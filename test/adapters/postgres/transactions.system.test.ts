import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Engine, openEngine } from "../../../src/adapters/postgres/engine.ts";
import type { ApprovalRequest } from "../../../src/host/approval.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { startPostgresProxy } from "../../support/postgres-proxy.ts";
import { sampleSteps } from "../../support/sample-steps.ts";
import { waitFor } from "../../support/wait-for.ts";

const WORKER = "first";
/** The connections at which a change is broken: the gate takes a sample of them, `npm run test:long` all. */
const SAMPLE = 6;

const REQUEST: ApprovalRequest = {
  ...{ run: "", skill: "mailer", source: "user", location: "/skills/mailer", tool: "mailer.send" },
  ...{ input: {}, on: "outside", what: "send a mail", reason: "it changes something outside" },
};

/** A change of a run and its legs. `prepare` creates the state before it. */
interface Change {
  name: string;
  prepare(engine: Engine, id: string): Promise<void>;
  make(engine: Engine, id: string): Promise<unknown>;
}

const enqueue = ({ queue }: Engine, id: string) =>
  queue.enqueue(
    { head: { id, kind: "use", skill: "mailer", task: "send it" }, request: { id } },
    { key: id, tenant: "acme", start: { digest: "d" } },
  );
const begin = async (engine: Engine, id: string) => {
  await enqueue(engine, id);
  await engine.queue.begin({ run: id, leg: 1 }, WORKER, 3);
};
const PROBLEM = { code: "skill-not-on-worker", message: "not here", fix: "install it" } as const;

const CHANGES: readonly Change[] = [
  { name: "queueing a run", prepare: async () => {}, make: enqueue },
  {
    name: "an answer",
    async prepare(engine, id) {
      await begin(engine, id);
      const journal = await engine.runs.resume(id);
      await journal.ask("approval:1", REQUEST);
      await journal.close();
      await engine.queue.finish({ run: id, leg: 1 }, WORKER, { type: "waiting" });
    },
    make: ({ runs }, id) => runs.answer(id, { isApproved: true }),
  },
  {
    name: "a resumption",
    async prepare(engine, id) {
      await begin(engine, id);
      await engine.queue.finish({ run: id, leg: 1 }, WORKER, { type: "stuck", problem: PROBLEM });
    },
    make: ({ queue }, id) => queue.requeue(id),
  },
  ...(["again", "returned"] as const).map(
    (type): Change => ({
      name: `a leg that ends as ${type}`,
      prepare: begin,
      make: ({ queue }, id) => queue.finish({ run: id, leg: 1 }, WORKER, { type, delaySeconds: 0, problem: PROBLEM }),
    }),
  ),
  {
    name: "the recovery of a worker",
    async prepare(engine, id) {
      await begin(engine, id);
      await engine.database.query(`delete from skillet.workers;
        insert into skillet.workers (name, host, pid, version, slots, queues) values ('${WORKER}', 'h', 1, '0', 1, '{runs}')`);
    },
    async make({ queue, database }) {
      const [row] = await database.query("select seen_at::text from skillet.workers");
      await queue.recover(WORKER, String(row?.["seen_at"]));
    },
  },
];

/** The content of the database about a run and its legs, without ids and times. */
const OBSERVE = `select
  (select json_build_array(dispatch, leg, attempts, returns, worker, owner is null, problem is null) from skillet.runs where id = $1) as run,
  (select json_agg(kind order by seq) from skillet.lines where run = $1) as lines,
  (select json_agg(replace(workflow_uuid, $1, '') order by workflow_uuid) from dbos.workflow_status
    where starts_with(workflow_uuid, $1)) as legs`;

describe.skipIf(!HAS_POSTGRES)("a change of a queued run", { timeout: 600_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it.each(CHANGES)("[E-07] is complete or absent when its connection breaks: $name", async ({ prepare, make }) => {
    const url = await server.createEngine();
    const proxy = await startPostgresProxy(server);
    const here = await openEngine({ url, connections: 2 });
    // Without retries: the change is not made again.
    const there = await openEngine({ url: proxy.urlOf(url), connections: 2, patienceMs: 0 });
    onTestFinished(async () => void (await Promise.all([here.close(), there.close()])));
    const observe = async (id: string) => JSON.stringify(await here.database.query({ text: OBSERVE, values: [id] }));
    /** Waits until the server has ended the transaction of a broken connection. */
    const settle = () =>
      waitFor(async () => {
        const text = `select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
          and (state <> 'idle' or xact_start is not null)`;
        return (await here.database.query(text)).length === 0;
      });
    let count = 0;
    const attempt = async (breakAt: number) => {
      const id = `20260102-030405-${String(++count).padStart(8, "0")}`;
      await prepare(here, id);
      const before = await observe(id);
      proxy.breakAfter(breakAt);
      const isDone = await make(there, id).then(
        () => true,
        () => false,
      );
      const { messages } = proxy;
      proxy.breakAfter(0);
      await settle();
      return { id, before, after: await observe(id), isDone, messages };
    };
    await attempt(0); // Opens the client of the dispatcher.
    const whole = await attempt(0);
    expect(whole.isDone).toBe(true);
    expect(whole.after).not.toBe(whole.before);
    const outcomes = new Set<string>();
    for (const step of sampleSteps(whole.messages, SAMPLE)) {
      const { id, before, after, isDone } = await attempt(step);
      expect(before, `message ${step}`).toBe(whole.before);
      expect([whole.before, whole.after], `message ${step} of ${whole.messages}`).toContain(after);
      if (isDone) expect(after).toBe(whole.after);
      outcomes.add(after);
      // Made again, it has the same effect once: its caller repeats it when the answer was lost.
      if (after === whole.before) await make(there, id);
      expect(await observe(id), `message ${step}, repeated`).toBe(whole.after);
    }
    expect(outcomes).toEqual(new Set([whole.before, whole.after]));
  });
});
