export type { ClientEnvironment } from "../../skill/source/locations.ts";
export {
  applyFolderChange,
  type FolderChange,
  type FolderItem,
  SkillInstallationError,
} from "../../store/atomic-folder.ts";
export { type ClientCopy, type ClientCopyStore, createClientCopyStore } from "../../store/copy-records.ts";
export {
  EXPORT_FORMATS,
  type ExportFormat,
  type ExportRequest,
  type ExportResult,
  exportSkill,
  resolveExportPath,
} from "./export-skill.ts";
export {
  type AuthFile,
  createHermeticHome,
  type HermeticHome,
  type HermeticHomeOptions,
  type HomeNetwork,
  type HomeSettingsOptions,
  type InstallPromptSkillsOptions,
  installPromptSkills,
} from "./hermetic-home.ts";
export {
  type ClientTarget,
  type ClientTargetOptions,
  NATIVE_CLIENTS,
  type NativeClient,
  resolveClientTarget,
} from "./native-clients.ts";
export {
  type CopyRemoval,
  type CopyStep,
  removeClientCopies,
  type WriteCopiesRequest,
  writeClientCopies,
} from "./skill-copies.ts";
