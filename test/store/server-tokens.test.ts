import { describe, it } from "vitest";
import { createServerTokenStore } from "../../src/store/server-tokens.ts";
import { temporaryFolder } from "../support/folder.ts";
import { SERVER_TOKEN_CASES } from "./server-token-cases.ts";

describe("server tokens in a file", () => {
  it.each(Object.entries(SERVER_TOKEN_CASES))("[E-35] %s", async (_, check) => {
    const home = temporaryFolder();
    await check(async () => createServerTokenStore(home));
  });
});
