// What a skill is

// All of them together
export { type Catalog, type Definition, openCatalog, type SourceSummary } from "./catalog/catalog.ts";
export { promptListing } from "./catalog/listing.ts";
export { type Discovered, type DiscoverOptions, discover } from "./host/discover.ts";
export type { Settings, SkillSettings } from "./host/settings.ts";
export { type CatalogChange, watchCatalog } from "./host/watch.ts";
export { type Denial, denials, type Policy } from "./policy/policy.ts";
export { PromptValidationError, SkillError } from "./shared/error.ts";
export { CODES, type Code } from "./skill/codes.ts";
export { defineSkill, type SkillDefinition } from "./skill/define.ts";
export { type Diagnostic, type Finding, PROFILES, type Profile, type Severity } from "./skill/diagnostic.ts";
export type { Script, Triggers } from "./skill/fields.ts";
export type { Manifest } from "./skill/manifest.ts";
export { toSkillMd } from "./skill/render.ts";
export { type FileList, type Origin, SCOPES, type Scope, type Skill, type SkillFile } from "./skill/skill.ts";

// What is wrong with them
export { type CheckedFile, type CheckOptions, type CheckResult, checkPath, validateSkillFile } from "./source/check.ts";
// Where skills come from
export { type DirectoryOptions, directorySource } from "./source/directory.ts";
export { type Location, locations, type Surroundings } from "./source/locations.ts";
export { inlineSource, type Loaded, type Source } from "./source/source.ts";
