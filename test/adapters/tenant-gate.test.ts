import { describe, expect, it } from "vitest";
import { createTenantGate } from "../../src/adapters/mcp-server/served-person.ts";

const never = new AbortController().signal;

async function entered(result: Promise<(() => void) | { code: string }>): Promise<() => void> {
  const leave = await result;
  if (typeof leave !== "function") throw new Error(leave.code);
  return leave;
}

describe("the gate of tenants", () => {
  it("[E-14] never runs more calls of a tenant than allowed, in the order of their arrival", async () => {
    const gate = createTenantGate();
    let [running, most] = [0, 0];
    const order: number[] = [];
    const call = async (number: number) => {
      const leave = await entered(gate.enter("red", { concurrency: 3 }, never));
      order.push(number);
      running++;
      most = Math.max(most, running);
      for (let turn = 0; turn < number % 5; turn++) await Promise.resolve();
      running--;
      leave();
      leave(); // A second time has no effect.
    };
    await Promise.all(Array.from({ length: 200 }, (_, number) => call(number)));
    expect({ most, running, first: order.slice(0, 3) }).toEqual({ most: 3, running: 0, first: [0, 1, 2] });
    expect(order).toHaveLength(200);
  });

  it("[E-14] does not make a tenant wait for another", async () => {
    const gate = createTenantGate();
    await entered(gate.enter("large", { concurrency: 1 }, never));
    for (let waiting = 0; waiting < 500; waiting++) void gate.enter("large", { concurrency: 1 }, never);
    for (let call = 0; call < 3; call++) (await entered(gate.enter("small", { concurrency: 1 }, never)))();
  });

  it("forgets a call that is canceled while it waits", async () => {
    const gate = createTenantGate();
    const leave = await entered(gate.enter("red", { concurrency: 1 }, never));
    const cancel = new AbortController();
    const waiting = gate.enter("red", { concurrency: 1 }, cancel.signal);
    cancel.abort(new Error("gone"));
    await expect(waiting).rejects.toThrow("gone");
    leave();
    await entered(gate.enter("red", { concurrency: 1 }, never));
    await expect(gate.enter("red", {}, AbortSignal.abort(new Error("gone")))).rejects.toThrow("gone");
  });

  it("refuses calls beyond the rate, and reports when to try again", async () => {
    let now = 0;
    const gate = createTenantGate({ now: () => now });
    const limits = { callsPerMinute: 2 };
    for (let call = 0; call < 2; call++) await entered(gate.enter("red", limits, never));
    expect(await gate.enter("red", limits, never)).toMatchObject({
      code: "tenant-busy",
      fix: "try again in 30 seconds",
    });
    now += 30_000;
    await entered(gate.enter("red", limits, never));
    expect(await gate.enter("red", limits, never)).toMatchObject({ code: "tenant-busy" });
  });
});
