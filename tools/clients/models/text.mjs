/** A text as it comes over a wire: in parts that end anywhere. */
export const pieces = (text) => text.match(/[\s\S]{1,9}/g) ?? [""];

/** The text of a tool's result, which is one or in parts. */
export const textOf = (content) =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("\n");
