// What scripts/get_editor bundles into build/editor/codemirror.js: CodeMirror for Python, as web/editor.js
// calls it. It lives in a shadow root: only there do its styles come without a <style> element.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import {
  EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

// The page's variables: they know dark and light.
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--number)" },
  { tag: tags.comment, color: "var(--comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className)], fontWeight: "600" },
]);
const look = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "transparent", fontSize: "inherit" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "inherit", lineHeight: "1.55" },
  ".cm-gutters": { color: "var(--soft)", backgroundColor: "transparent", border: "0" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--field)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--faint)",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--faint)", color: "inherit" },
  ".cm-tooltip": { color: "var(--ink)", backgroundColor: "var(--card)", border: "1px solid var(--line)" },
});

/** An editor in `root`, a shadow root: `changed(text)` hears edits, `run()` Ctrl/Cmd+Enter. */
export function edit(root, { text, label, changed, run }) {
  const extensions = [
    lineNumbers(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(),
    highlightActiveLineGutter(), indentUnit.of("    "), EditorState.tabSize.of(4), python(), syntaxHighlighting(colours), look,
    keymap.of([{ key: "Mod-Enter", run: () => (run(), true) }, ...defaultKeymap, ...historyKeymap, indentWithTab]),
    EditorView.contentAttributes.of({ "aria-label": label }),
    EditorView.updateListener.of((update) => { if (update.docChanged) changed(update.state.doc.toString()); }),
  ];
  const view = new EditorView({ state: EditorState.create({ doc: text, extensions }), parent: root, root });
  return {
    get text() { return view.state.doc.toString(); },
    set text(value) { view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } }); },
    focus: () => view.focus(),
    /** Marks a line (from 1) with a message, or none for null. */
    mark(line, message) {
      const { doc } = view.state;
      const marked = line !== null && line >= 1 && line <= doc.lines ? [doc.line(line)] : [];
      view.dispatch(setDiagnostics(view.state, marked.map(({ from, to }) => ({ from, to, severity: "error", message }))));
      for (const { from } of marked) view.dispatch({ effects: EditorView.scrollIntoView(from, { y: "center" }) });
    },
  };
}
