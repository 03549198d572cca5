/** Bash in colours, token by token: comments, texts, variables, reserved words, the command of a line. */

const TOKENS: [string, RegExp][] = [
  ['tok-meta', /^%%\w+.*/y],
  ['tok-comment', /#.*/y],
  ['tok-string', /\$?'(?:[^'\\]|\\[\s\S])*'?|"(?:[^"\\]|\\[\s\S])*"?/y],
  ['tok-meta', /\$\{[^}\n]*\}?|\$(?:\w+|[@*#?$!-])/y],
  ['tok-number', /\d+(?![\w./-])/y],
  ['', /\\[\s\S]|[\w./:@%+,~=*?-]+/y],
  ['', /\s+|[\s\S]/y]
];
const WORDS =
  /^(if|then|elif|else|fi|for|while|until|do|done|case|esac|in|function|select|time|return|exit|break|continue|export|local|readonly|declare|set|unset|source|cd|echo)$/;
/** After these a command begins. */
const BEGINS = /[\n;|&({`]\s*$|^(then|do|else|elif|if|while|until|time)$/;

export function bash(code: string): { text: string; className: string }[] {
  const parts: { text: string; className: string }[] = [];
  let isCommand = true;
  let isWordStart = true;
  for (let at = 0; at < code.length; ) {
    for (const [className, pattern] of TOKENS) {
      // Within a word no comment begins, nor a number.
      if (!isWordStart && (className === 'tok-comment' || className === 'tok-number')) continue;
      pattern.lastIndex = at;
      const text = pattern.exec(code)?.[0];
      if (!text) continue;
      const isWord = className === '' && /^[\w./~]/.test(text);
      const isSet: boolean = isWord && isCommand && /^\w+=/.test(text);
      const kind = !isWord ? className : WORDS.test(text) ? 'tok-keyword' : isCommand && !isSet ? 'tok-call' : '';
      if (!/^[ \t]+$/.test(text)) isCommand = BEGINS.test(text) || text.includes('\n') || isSet;
      isWordStart = /\s$|^[;|&()]$/.test(text);
      put(parts, text, kind);
      at += text.length;
      break;
    }
  }
  return parts;
}

function put(parts: { text: string; className: string }[], text: string, className: string): void {
  const last = parts.at(-1);
  if (last && last.className === className) last.text += text;
  else parts.push({ text, className });
}
