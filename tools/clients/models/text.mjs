/** Splits a text into parts at arbitrary positions, as in a stream. */
export const pieces = (text) => text.match(/[\s\S]{1,9}/g) ?? [""];

/** Returns the text of a tool result, which is a string or a list of parts. */
export const textOf = (content) =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("\n");
