export { wireName as formatWireName } from "../skill/wire-name.ts";
export { type HttpOptions, type HttpServing, serveHttp } from "./http.ts";
export { type MountOptions, mountSkills, type SkillMount } from "./mount-skills.ts";
export { openServing, type ServeOptions, type Serving } from "./serve.ts";
export { createMcpServer, type McpOptions } from "./server.ts";
export { type StdioStreams, serveStreams } from "./stdio.ts";
export { type Envelope, envelope as createResultEnvelope, objectSchema as normalizeSchema } from "./transform.ts";
