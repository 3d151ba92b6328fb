// What a recording's comments say of how it was taken, each in a line "KEY: VALUE # sentence".

const keyOf = (comment) => comment.split(": ", 1)[0];
const valueOf = (comment) => comment.slice(keyOf(comment).length + 2).split(" # ", 1)[0];

// The comments that tell of a limit or a loss; "limits" lists their keys.
export function limitsOf(comments) {
  const keys = comments.filter((c) => keyOf(c) === "limits").flatMap((c) => valueOf(c).split(","));
  return comments.filter((c) => keys.includes(keyOf(c)));
}
