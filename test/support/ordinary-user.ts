/** Of no account of this machine, so that nothing of anybody's is at stake. */
export const ORDINARY_USER = 12345;
