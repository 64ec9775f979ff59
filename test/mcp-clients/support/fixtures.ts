// What the conformance suite asks a server for by name: its tools, resources and prompts. They follow its descriptions.
import { setTimeout as after } from "node:timers/promises";
import {
  type CallToolResult,
  completable,
  fromJsonSchema,
  type McpServer,
  ResourceTemplate,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { addInputFixtures } from "./input-fixtures.ts";

/** Notifies the clients that listen, on any connection. */
export interface ListChanges {
  toolsChanged(): void;
  promptsChanged(): void;
}

export function addFixtures(server: McpServer, changes: ListChanges): void {
  server.server.registerCapabilities({ logging: {}, resources: { subscribe: true } });
  addContent(server);
  addNotices(server, changes);
  addSchemas(server);
  addResources(server);
  addPrompts(server);
  addInputFixtures(server);
}

/** A red dot. */
const IMAGE = {
  data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==",
  mimeType: "image/png",
};
/** Silence. */
const AUDIO = { data: "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=", mimeType: "audio/wav" };

type Content = CallToolResult["content"];

const CONTENT: Record<string, Content> = {
  test_simple_text: [{ type: "text", text: "This is a simple text response for testing." }],
  test_image_content: [{ type: "image", ...IMAGE }],
  test_audio_content: [{ type: "audio", ...AUDIO }],
  test_embedded_resource: [
    {
      type: "resource",
      resource: {
        uri: "test://embedded-resource",
        mimeType: "text/plain",
        text: "This is an embedded resource content.",
      },
    },
  ],
  test_multiple_content_types: [
    { type: "text", text: "Multiple content types test:" },
    { type: "image", ...IMAGE },
    {
      type: "resource",
      resource: {
        uri: "test://mixed-content-resource",
        mimeType: "application/json",
        text: JSON.stringify({ test: "data", value: 123 }),
      },
    },
  ],
};

function addContent(server: McpServer): void {
  for (const [name, content] of Object.entries(CONTENT)) {
    server.registerTool(name, { description: `Answers ${name}` }, () => ({ content }));
  }
  server.registerTool("test_error_handling", { description: "Fails" }, () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
}

const done = (text: string): CallToolResult => ({ content: [{ type: "text", text }] });

const NOTICES: Record<string, (context: ServerContext) => Promise<CallToolResult>> = {
  async test_tool_with_logging({ mcpReq }) {
    await mcpReq.log("info", "Tool execution started");
    await after(50);
    await mcpReq.log("info", "Tool processing data");
    await after(50);
    await mcpReq.log("info", "Tool execution completed");
    return done("Logged three times.");
  },
  async test_logging_tool({ mcpReq }) {
    await mcpReq.log("info", "Only for who asked for it");
    return done("Logged.");
  },
  async test_tool_with_progress({ mcpReq }) {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) {
        await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      }
      await after(50);
    }
    return done(String(progressToken));
  },
};

function addNotices(server: McpServer, changes: ListChanges): void {
  for (const [name, execute] of Object.entries(NOTICES)) {
    server.registerTool(name, { description: `Does ${name}` }, execute);
  }
  server.registerTool("test_trigger_tool_change", { description: "Says that the tools changed" }, () => {
    changes.toolsChanged();
    return done("Said.");
  });
  server.registerTool("test_trigger_prompt_change", { description: "Says that the prompts changed" }, () => {
    changes.promptsChanged();
    return done("Said.");
  });
}

const SCHEMAS = {
  json_schema_2020_12_tool: {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: {
      address: {
        $anchor: "addressDef",
        type: "object",
        properties: { street: { type: "string" }, city: { type: "string" } },
      },
    },
    properties: {
      name: { type: "string" },
      address: { $ref: "#/$defs/address" },
      contactMethod: { type: "string", enum: ["phone", "email"] },
      phone: { type: "string" },
      email: { type: "string" },
    },
    allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
    if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
    // biome-ignore lint/suspicious/noThenProperty: a word of JSON Schema.
    then: { required: ["phone"] },
    else: { required: ["email"] },
    additionalProperties: false,
  },
  test_custom_header: {
    type: "object",
    properties: { region: { type: "string", "x-mcp-header": "Region" } },
    required: ["region"],
  },
};

function addSchemas(server: McpServer): void {
  for (const [name, schema] of Object.entries(SCHEMAS)) {
    server.registerTool(name, { description: "Has a schema", inputSchema: fromJsonSchema(schema as never) }, () =>
      done("Fine."),
    );
  }
}

function addResources(server: McpServer): void {
  const text = (uri: string, content: string, mimeType = "text/plain") => ({
    contents: [{ uri, mimeType, text: content }],
  });
  server.registerResource(
    "static-text",
    "test://static-text",
    { description: "A text that does not change", mimeType: "text/plain" },
    ({ href }) => text(href, "This is the content of the static text resource."),
  );
  server.registerResource(
    "static-binary",
    "test://static-binary",
    { description: "A picture that does not change", mimeType: IMAGE.mimeType },
    ({ href }) => ({ contents: [{ uri: href, mimeType: IMAGE.mimeType, blob: IMAGE.data }] }),
  );
  server.registerResource(
    "watched-resource",
    "test://watched-resource",
    { description: "A text that can be watched", mimeType: "text/plain" },
    ({ href }) => text(href, "Watched."),
  );
  server.registerResource(
    "template",
    new ResourceTemplate("test://template/{id}/data", { list: undefined }),
    { description: "A text about an id", mimeType: "application/json" },
    ({ href }, { id }) =>
      text(href, JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }), "application/json"),
  );
  server.server.setRequestHandler("resources/subscribe", () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", () => ({}));
}

function addPrompts(server: McpServer): void {
  const said = (text: string) => ({ role: "user" as const, content: { type: "text" as const, text } });
  server.registerPrompt("test_simple_prompt", { description: "A prompt" }, () => ({
    messages: [said("This is a simple prompt for testing.")],
  }));
  server.registerPrompt(
    "test_prompt_with_arguments",
    {
      description: "A prompt with arguments",
      argsSchema: z.object({
        arg1: completable(z.string().describe("First test argument"), (value) =>
          ["paris", "park", "party"].filter((word) => word.startsWith(value)),
        ),
        arg2: z.string().describe("Second test argument"),
      }),
    },
    ({ arg1, arg2 }) => ({ messages: [said(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)] }),
  );
  server.registerPrompt(
    "test_prompt_with_embedded_resource",
    { description: "A prompt with a resource", argsSchema: z.object({ resourceUri: z.string() }) },
    ({ resourceUri: uri }) => ({
      messages: [
        {
          role: "user",
          content: {
            type: "resource",
            resource: { uri, mimeType: "text/plain", text: "Embedded resource content for testing." },
          },
        },
        said("Please process the embedded resource above."),
      ],
    }),
  );
  server.registerPrompt("test_prompt_with_image", { description: "A prompt with a picture" }, () => ({
    messages: [{ role: "user", content: { type: "image", ...IMAGE } }, said("Please analyze the image above.")],
  }));
}
