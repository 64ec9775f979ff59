import type { ErrorCode } from "../../codes/codes.ts";
import type { Caller } from "../../host/caller.ts";
import type { Notice } from "../../host/sandbox.ts";
import type { Data } from "../../skill/data.ts";
import type { ToolEffect, ToolOutcome, ToolOwner, ToolResult } from "../../skill/tool.ts";

/** What the thread of a toolset is started with. */
export interface Start {
  /** The copy of the skill that was judged. */
  root: string;
  /** By path below that, the SHA-256 of each of its files: no other is imported. */
  digests: ReadonlyMap<string, string>;
  /** The skill's own folder: what messages show, and where packages are found. */
  folder: string;
  /** Whether packages that stand beside the skill may be imported: they are no part of what was trusted. */
  hasPackages: boolean;
  toolsets: readonly { file: string; export: string }[];
  given: Given;
}

/** What a toolset that is a class is constructed with. */
export interface Given {
  skill: ToolOwner;
  workspace?: string;
  caller?: Caller;
}

/** A tool as the thread tells of it. */
export interface Offer {
  name: string;
  description: string;
  inputSchema: Data;
  hasEffect: boolean;
}

/** What a call is made with, beside its input. */
export interface Call {
  run?: string;
  key?: string;
  skill?: ToolOwner;
  env?: Readonly<Record<string, string>>;
  hasSandbox: boolean;
}

export type ToThread =
  | { type: "call"; id: number; tool: string; input: unknown; call: Call }
  | { type: "effect"; id: number; tool: string; input: unknown }
  | { type: "abort"; id: number }
  | { type: "ran"; program: number; outcome: ToolOutcome }
  | { type: "not-run"; program: number; code: ErrorCode; message: string };

export type FromThread =
  | { type: "ready"; offers: readonly Offer[] }
  | { type: "problem"; problem: Notice }
  | { type: "called"; id: number; result: ToolResult }
  | { type: "effect"; id: number; effect: ToolEffect | undefined }
  | { type: "printed"; text: string }
  | { type: "progress"; id: number; text: string }
  | { type: "run"; id: number; program: number; argv: readonly [string, ...string[]]; stdin?: string; seconds?: number }
  | { type: "stop"; program: number };
