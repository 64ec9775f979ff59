import { expect } from "vitest";
import type { ServerTokenStore } from "../../src/store/server-tokens.ts";

/** The promises of every store of server tokens. `open` opens the same storage again, as another process does. */
export const SERVER_TOKEN_CASES: Readonly<Record<string, (open: () => Promise<ServerTokenStore>) => Promise<void>>> = {
  async "finds a token of another process by its text, and stores no text"(open) {
    const store = await open();
    const { token, text } = await store.create({ person: "ada", scopes: ["load", "metrics"] });
    const other = await open();
    expect(await other.find(text)).toEqual(token);
    expect(await other.find(`${text.slice(0, -1)}${text.endsWith("A") ? "B" : "A"}`)).toBeUndefined();
    expect(await other.find("skt_000000000000_nothing")).toBeUndefined();
    expect(other.isValid(token.id)).toBe(true);
    const listed = await other.list();
    expect(listed).toEqual([{ ...token, isValid: true, storedIn: store.place }]);
    expect(JSON.stringify(listed)).not.toContain(text.slice(-20));
  },
  async "revokes one token, or all of a person, for every process that reads again"(open) {
    const [store, other] = [await open(), await open()];
    const texts: string[] = [];
    for (const person of ["ada", "ada", "bob"]) texts.push((await store.create({ person })).text);
    const found = await Promise.all(texts.map((text) => other.find(text)));
    const [first, second, bob] = found.map((token) => token?.id ?? "");
    expect((await store.revoke(first ?? "")).map(({ id }) => id)).toEqual([first]);
    expect(await store.revoke("nobody")).toEqual([]);
    await other.refresh();
    expect([first, second, bob].map((id) => other.isValid(id ?? ""))).toEqual([false, true, true]);
    expect(await other.find(texts[0] ?? "")).toBeUndefined();
    expect((await other.revoke("ada")).map(({ id }) => id)).toEqual([second]);
    await store.refresh();
    expect((await store.list()).map(({ person }) => person)).toEqual(["bob"]);
  },
  async "does not find a token that has expired, and lists it"(open) {
    const store = await open();
    const { token, text } = await store.create({ person: "ada", expiresAt: new Date(Date.now() - 1000) });
    expect(await store.find(text)).toBeUndefined();
    expect(store.isValid(token.id)).toBe(false);
    expect(await store.list()).toMatchObject([{ id: token.id, isValid: false }]);
  },
  async "refuses an invalid name or scope"(open) {
    const store = await open();
    await expect(store.create({ person: "a b" })).rejects.toMatchObject({ code: "usage" });
    await expect(store.create({ person: "ada", scopes: ["all" as "list"] })).rejects.toMatchObject({ code: "usage" });
    expect(await store.list()).toEqual([]);
  },
};
