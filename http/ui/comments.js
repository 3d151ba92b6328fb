// The comments of a recording say how it was taken. Each comment is a line "KEY: VALUE # sentence".

const keyOf = (comment) => comment.split(": ", 1)[0];
const valueOf = (comment) => comment.slice(keyOf(comment).length + 2).split(" # ", 1)[0];

// Returns the comments that tell of a limit or a loss. The comment "limits" lists their keys.
export function limitsOf(comments) {
  const keys = comments.filter((c) => keyOf(c) === "limits").flatMap((c) => valueOf(c).split(","));
  return comments.filter((c) => keys.includes(keyOf(c)));
}
