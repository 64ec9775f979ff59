import { deepEqual, equal } from "node:assert/strict";
import { type ApprovalSubject, getApprovalKey } from "../host/approval.ts";
import type { ApprovalStore, ListedApprovals } from "../store/approvals.ts";
import { type ContractCase, type CreateStorage, createContractCases, eventually } from "./contract.ts";

/** Creates an approval store that keeps everything in memory. `stored` is its storage: stores that share it are one. */
export function createMemoryApprovalStore(stored: Map<string, ListedApprovals> = new Map()): ApprovalStore {
  const getOwner = ({ skill, source, place }: ApprovalSubject) => `${skill}@${place === "" ? source : place}`;
  return {
    async isAlwaysApproved(request) {
      return !request.isOnce && stored.get(getOwner(request))?.allowed.includes(getApprovalKey(request)) === true;
    },
    async add(request) {
      if (request.isOnce) return;
      const { skill, source, place } = request;
      const { allowed } = stored.get(getOwner(request)) ?? { allowed: [] };
      const keys = [...new Set([...allowed, getApprovalKey(request)])];
      stored.set(getOwner(request), { skill, source, place, allowed: keys });
    },
    list: async () => structuredClone([...stored.values()]),
    async forget(skill, place) {
      const selected = [...stored].filter(([, one]) => one.skill === skill && [undefined, one.place].includes(place));
      for (const [owner] of selected) stored.delete(owner);
      return selected.length;
    },
    problem: async () => undefined,
  };
}

/** Returns the contract of an approval store as test cases. */
export function testApprovalStore(create: CreateStorage<ApprovalStore>): ContractCase[] {
  return createContractCases<ApprovalStore>(
    {
      "approves nothing at first": async (open) => {
        const store = await open();
        equal(await store.isAlwaysApproved(SEND), false);
        deepEqual(await store.list(), []);
        equal(await store.problem(), undefined);
      },
      "approves what was added, for that tool and that copy of the skill only": async (open) => {
        const store = await open();
        await store.add(SEND);
        equal(await store.isAlwaysApproved(SEND), true);
        equal(await store.isAlwaysApproved({ ...SEND, tool: "delete" }), false);
        equal(await store.isAlwaysApproved({ ...SEND, place: "/other/mail" }), false);
        equal(await store.isAlwaysApproved({ ...SEND, skill: "post" }), false);
      },
      "tells skills in code apart by their source": async (open) => {
        const store = await open();
        await store.add({ ...SEND, place: "", source: "program" });
        equal(await store.isAlwaysApproved({ ...SEND, place: "", source: "program" }), true);
        equal(await store.isAlwaysApproved({ ...SEND, place: "", source: "other" }), false);
      },
      "approves all changes of one workspace at once": async (open) => {
        const store = await open();
        const change = { ...SEND, on: "workspace", where: "/work" } as const;
        await store.add(change);
        equal(await store.isAlwaysApproved({ ...change, tool: "write_file" }), true);
        equal(await store.isAlwaysApproved({ ...change, where: "/elsewhere" }), false);
      },
      "never stores or applies an approval for one call": async (open) => {
        const store = await open();
        await store.add({ ...SEND, isOnce: true });
        deepEqual(await store.list(), []);
        await store.add(SEND);
        equal(await store.isAlwaysApproved({ ...SEND, isOnce: true }), false);
      },
      "lists each copy once, with each approval once": async (open) => {
        const store = await open();
        for (const tool of ["send", "send", "delete"]) await store.add({ ...SEND, tool });
        deepEqual(await store.list(), [
          { skill: "mail", source: "user", place: "/skills/mail", allowed: ["tool:send", "tool:delete"] },
        ]);
      },
      "forgets all copies of a name, or the one at a path, and returns their number": async (open) => {
        const store = await open();
        for (const place of ["/a", "/b", "/c"]) await store.add({ ...SEND, place });
        await store.add({ ...SEND, skill: "post" });
        equal(await store.forget("mail", "/a"), 1);
        equal(await store.isAlwaysApproved({ ...SEND, place: "/a" }), false);
        equal(await store.isAlwaysApproved({ ...SEND, place: "/b" }), true);
        equal(await store.forget("mail"), 2);
        equal(await store.forget("mail"), 0);
        equal(await store.isAlwaysApproved({ ...SEND, skill: "post" }), true);
      },
      "keeps a skill with the name of a built-in property": async (open) => {
        const store = await open();
        equal(await store.isAlwaysApproved({ ...SEND, skill: "constructor", place: "", source: "" }), false);
        await store.add({ ...SEND, skill: "__proto__" });
        equal(await store.isAlwaysApproved({ ...SEND, skill: "__proto__" }), true);
      },
      "keeps everything that is added at once": async (open) => {
        const stores = [await open(), await open()];
        const tools = Array.from({ length: 20 }, (_, index) => `tool-${index}`);
        await Promise.all(tools.map((tool, index) => stores[index % 2]?.add({ ...SEND, tool })));
        const [copy] = await (await open()).list();
        deepEqual([...(copy?.allowed ?? [])].sort(), tools.map((tool) => `tool:${tool}`).sort());
      },
      "shows another process what was added and revoked": async (open) => {
        const [here, elsewhere] = [await open(), await open()];
        equal(await elsewhere.isAlwaysApproved(SEND), false);
        await here.add(SEND);
        await eventually(async () => equal(await elsewhere.isAlwaysApproved(SEND), true));
        await here.forget("mail");
        await eventually(async () => equal(await elsewhere.isAlwaysApproved(SEND), false));
      },
    },
    create,
  );
}

const SEND: ApprovalSubject = { skill: "mail", source: "user", place: "/skills/mail", tool: "send", on: "outside" };
