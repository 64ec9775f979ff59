import { describe, expect, it } from "vitest";
import { discoverIn } from "../support/discover.ts";
import { type OpenedSkill, openIn, ownSkill, toolsetOf } from "../support/toolset.ts";

const COUNTING = ownSkill({
  "toolsets/index.ts": toolsetOf({ one: "return String(++count)" }, 'let count = 0; console.log("imported");'),
});
const said = async (opened: OpenedSkill) => /\d/.exec((await opened.call("one")).text)?.[0];
const imports = ({ printed }: OpenedSkill) => printed.join("").split("imported").length - 1;

describe("toolsets of which many are open", () => {
  it("rest while nobody has called them, and begin anew with their first call", async () => {
    const scene = await discoverIn(COUNTING);
    const [first, called] = [await openIn(scene), await openIn(scene)];
    expect(await said(called)).toBe("1");
    for (let count = 0; count < 6; count++) await openIn(scene);
    expect(first.getEndReason()).toBeUndefined();
    expect(await said(first)).toBe("1");
    expect(await said(first)).toBe("2");
    expect(imports(first)).toBe(2);
    // What was called may have something to lose.
    expect(await said(called)).toBe("2");
    expect(imports(called)).toBe(1);
  });

  it("do not come back once they are closed", async () => {
    const scene = await discoverIn(COUNTING);
    const first = await openIn(scene);
    for (let count = 0; count < 6; count++) await openIn(scene);
    first.close();
    expect(await first.call("one")).toMatchObject({ isError: true, code: "toolset-exited" });
    expect(imports(first)).toBe(1);
  });
});
