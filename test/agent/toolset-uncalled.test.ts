import { describe, expect, it } from "vitest";
import { discoverIn } from "../support/discover.ts";
import { type OpenedSkill, openToolsetIn, ownSkill, toolsetOf } from "../support/toolset.ts";

const COUNTING = ownSkill({
  "toolsets/index.ts": toolsetOf({ one: "return String(++count)" }, 'let count = 0; console.log("imported");'),
});
const said = async (opened: OpenedSkill) => /\d/.exec((await opened.call("one")).text)?.[0];
const imports = ({ printed }: OpenedSkill) => printed.join("").split("imported").length - 1;

describe("many open toolsets", () => {
  it("pause until the first call, and start again with the next one", async () => {
    const scene = await discoverIn(COUNTING);
    const [first, called] = [await openToolsetIn(scene), await openToolsetIn(scene)];
    expect(await said(called)).toBe("1");
    for (let count = 0; count < 6; count++) await openToolsetIn(scene);
    expect(first.getEndReason()).toBeUndefined();
    expect(await said(first)).toBe("1");
    expect(await said(first)).toBe("2");
    expect(imports(first)).toBe(2);
    // A toolset that was called may have state to lose.
    expect(await said(called)).toBe("2");
    expect(imports(called)).toBe(1);
  });

  it("do not return once they are closed", async () => {
    const scene = await discoverIn(COUNTING);
    const first = await openToolsetIn(scene);
    for (let count = 0; count < 6; count++) await openToolsetIn(scene);
    first.close();
    expect(await first.call("one")).toMatchObject({ isError: true, code: "toolset-exited" });
    expect(imports(first)).toBe(1);
  });
});
