/**
 * A Python package as a user gives it: a name, extras, and versions. No URL, path, option, environment marker or arbitrary equality: pip reads
 * all of these into a plain argument.
 */
export const PYTHON_PACKAGE =
  /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?(?:\[[A-Za-z0-9][A-Za-z0-9._-]{0,98}(?:, ?[A-Za-z0-9][A-Za-z0-9._-]{0,98}){0,15}\])?(?: ?(?:==|!=|<=|>=|~=|<|>) ?[0-9][0-9A-Za-z.+!*-]{0,63}(?: ?, ?(?:==|!=|<=|>=|~=|<|>) ?[0-9][0-9A-Za-z.+!*-]{0,63}){0,7})?$/;

/** An npm package: a name, and a version, range or tag after `@`. No URL, path, alias or repository. */
export const NPM_PACKAGE =
  /^(?:@[a-z0-9][a-z0-9._~-]{0,98}\/)?[a-z0-9][a-z0-9._~-]{0,98}(?:@(?:[a-z][a-z0-9.-]{0,63}|(?:[~^]|[<>]=?|=)?v?[0-9][0-9A-Za-z.+*-]{0,63}(?: (?:[~^]|[<>]=?|=)?v?[0-9][0-9A-Za-z.+*-]{0,63}){0,3}))?$/;

/** The name of a Python package, as indexes compare it. */
export function pythonName(specifier: string): string {
  const [name = ""] = /^[A-Za-z0-9._-]+/.exec(specifier) ?? [];
  return name.replace(/[._-]+/g, "-").toLowerCase();
}

/** The name of an npm package, and the range that is wanted of it. */
export function npmName(specifier: string): { name: string; range: string | undefined } {
  const at = specifier.indexOf("@", 1);
  return at === -1
    ? { name: specifier, range: undefined }
    : { name: specifier.slice(0, at), range: specifier.slice(at + 1) };
}
