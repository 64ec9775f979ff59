import { describe, expect, it } from "vitest";
import { findPackageRoot, parsePackageSet } from "../../../src/sandbox/packages/apt-packages.ts";

describe("names of system packages", () => {
  it.each(["jq", "g++", "libssl3", "python3.11", "libstdc++6", "0ad", "a".repeat(64)])("[Q-18] accepts %s", (name) => {
    expect(parsePackageSet([name])).toEqual([name]);
  });

  it.each([
    "",
    "a",
    "apt-",
    "libssl.*",
    "jq=1.6",
    "jq:arm64",
    "jq/stable",
    "./x.deb",
    "/x.deb",
    "-oX",
    "--",
    "JQ",
    "jq curl",
    "jq\n",
    "\njq",
    "jq)",
    "~nssl",
    "?essential",
    "jq,curl",
    "ｊｑ",
    "jq\u200b",
    "a".repeat(65),
    "__proto__",
  ])("[Q-18] refuses %j before apt sees it", (name) => {
    expect(() => parsePackageSet(["jq", name])).toThrow(expect.objectContaining({ code: "package-name" }));
    expect(() => findPackageRoot([name], { own: "/nowhere", shared: undefined })).toThrow(
      "is not a system package name",
    );
  });

  it("[S-26] are a set: order and repetition make no difference", () => {
    expect(parsePackageSet(["jq", "curl", "jq"])).toEqual(["curl", "jq"]);
  });

  it("[Q-18] are 32 at most", () => {
    const names = Array.from({ length: 33 }, (_, index) => `package${index}`);
    expect(parsePackageSet(names.slice(1))).toHaveLength(32);
    expect(parsePackageSet([...names.slice(1), "package1"])).toHaveLength(32);
    expect(() => parsePackageSet(names)).toThrow(expect.objectContaining({ code: "package-limit" }));
  });
});
