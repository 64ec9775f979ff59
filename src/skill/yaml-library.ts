import * as library from "js-yaml";

/** Returns js-yaml. In the build, the first call evaluates it: that takes a tenth of a start (`tools/build.mjs`). */
export function getYamlLibrary(): typeof library {
  return library;
}
