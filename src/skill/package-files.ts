import { isData } from "./data.ts";
import { NPM_PACKAGE, PYTHON_PACKAGE } from "./package-specifier.ts";

/** The packages that a `requirements.txt` lists by name. Options, URLs, paths and lines with environment markers are left out. */
export function requirementsIn(text: string): string[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.replace(/(?:^|\s)#.*$/, "").trim())
    .filter((line) => PYTHON_PACKAGE.test(line));
}

/** The dependencies that a `package.json` lists, by name and range. URLs, paths and aliases are left out. */
export function npmDependenciesIn(text: string): string[] {
  const dependencies = dependenciesIn(text);
  return Object.entries(dependencies).flatMap(([name, range]) => {
    const specifier = range === "*" || range === "" ? name : `${name}@${String(range)}`;
    return NPM_PACKAGE.test(specifier) ? [specifier] : [];
  });
}

function dependenciesIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const manifest: unknown = JSON.parse(text);
    const dependencies = isData(manifest) ? manifest["dependencies"] : undefined;
    return isData(dependencies) ? dependencies : {};
  } catch {
    return {};
  }
}
