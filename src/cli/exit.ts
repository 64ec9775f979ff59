/** What every command ends with. The last is what a shell gives for a program that Ctrl-C ended. */
export const EXIT = { fine: 0, findings: 1, usage: 2, refused: 3, limit: 4, waiting: 5, interrupted: 130 } as const;
