"""The style sheet of the report."""

STYLE = """
:root { --ink:#111827; --soft:#4b5563; --line:#e5e7eb; --paper:#ffffff; --back:#f6f7f9; --good:#15803d; --bad:#b45309;
  --later:#4f6d8f; --none:#6b7280;
  --accent:#3b6fb6; }
* { box-sizing:border-box; }
body { margin:0; background:var(--back); color:var(--ink);
  font:15px/1.55 Inter,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif; }
header, main, footer { max-width:1120px; margin:0 auto; padding:0 20px; }
header { padding-top:44px; }
h1 { font-size:30px; letter-spacing:-.02em; margin:0 0 8px; }
h2 { font-size:19px; letter-spacing:-.01em; margin:0; }
.lead { max-width:76ch; color:var(--soft); margin:0 0 20px; }
.machine, footer, .source, .notes, .published { color:var(--soft); font-size:13.5px; }
footer { padding:8px 20px 48px; }
.tiles { display:flex; gap:12px; flex-wrap:wrap; }
.tile { background:var(--paper); border:1px solid var(--line); border-radius:10px; padding:12px 18px; flex:1 1 150px;
  max-width:260px; }
.tile b { display:block; font-size:28px; line-height:1.1; }
.tile span { font-size:13.5px; font-weight:600; }
.tile small { display:block; color:var(--soft); font-size:12px; line-height:1.35; margin-top:2px; }
.tile.held b { color:var(--good); } .tile.not-held b { color:var(--bad); } .tile.not-checked b { color:var(--none); }
.tile.not-reached b { color:var(--later); }
.card { background:var(--paper); border:1px solid var(--line); border-radius:12px; padding:22px 26px; margin:20px 0; }
.head { display:flex; align-items:baseline; gap:10px; flex-wrap:wrap; }
.id, .scale { font-size:12px; border:1px solid var(--line); border-radius:99px; padding:1px 9px; color:var(--soft); }
.id { font-family:ui-monospace,Menlo,Consolas,monospace; }
.source { margin:4px 0 14px; }
.figure { display:flex; flex-wrap:wrap; gap:12px 26px; justify-content:center; }
.panel { flex:1 1 420px; min-width:min(100%,420px); max-width:780px; }
.panel svg { width:100%; height:auto; max-height:420px; display:block; }
.legend { display:flex; flex-wrap:wrap; gap:4px 20px; justify-content:center; margin:10px 0 4px; font-size:13px; }
.legend.many { display:grid; grid-template-columns:repeat(auto-fill, minmax(225px, 1fr)); }
.legend svg { vertical-align:-1px; margin-right:6px; }
.verdicts { list-style:none; margin:14px 0 10px; padding:0; }
.verdicts li { display:flex; gap:12px; padding:7px 0; border-top:1px solid var(--line); align-items:flex-start; }
.verdicts b { font-weight:600; } .verdicts small { color:var(--soft); } .verdicts p { margin:4px 0 0; }
.badge { flex:none; width:92px; text-align:center; border-radius:99px; font-size:12px; padding:2px 0; margin-top:2px;
  color:#fff; }
.badge.held, .dot.held { background:var(--good); } .badge.not-held, .dot.not-held { background:var(--bad); }
.badge.not-reached, .dot.not-reached { background:var(--later); }
.badge.not-checked, .dot.not-checked { background:var(--none); }
.run { display:inline-block; margin-right:14px; white-space:nowrap; color:var(--soft); }
.run small { margin-right:6px; }
.dot { display:inline-block; width:15px; height:15px; border-radius:50%; margin-right:3px; color:#fff; font-size:10px;
  line-height:15px; text-align:center; vertical-align:1px; }
table { border-collapse:collapse; width:100%; font-size:13.5px; }
th { text-align:left; font-weight:600; color:var(--soft); }
th, td { padding:5px 12px 5px 0; border-bottom:1px solid var(--line); vertical-align:top; }
.numbers td:not(:first-child), .numbers th:not(:first-child) { text-align:right; font-variant-numeric:tabular-nums; }
.numbers td small { display:block; color:#9ca3af; font-size:11px; }
.overview td:first-child { font-family:ui-monospace,Menlo,Consolas,monospace; white-space:nowrap; font-size:12.5px; }
.scroll { overflow-x:auto; margin:10px 0; }
details { margin-top:6px; } summary { cursor:pointer; color:var(--accent); font-size:13.5px; }
a { color:var(--accent); text-decoration:none; } a:hover { text-decoration:underline; }
@media (max-width:640px) {
  header { padding-top:26px; } h1 { font-size:25px; line-height:1.2; }
  header, main, footer { padding-left:12px; padding-right:12px; }
  .card { padding:16px 14px; margin:14px 0; border-radius:10px; }
  .tile { padding:10px 14px; max-width:none; flex-basis:130px; }
  .panel { min-width:100%; }
  .panel.wide { overflow-x:auto; } .panel.wide svg { width:640px; max-height:none; }
  .verdicts li { flex-direction:column; gap:4px; }
  .overview, .overview tbody, .overview tr, .overview td { display:block; }
  .overview thead { display:none; }
  .overview tr { border-bottom:1px solid var(--line); padding:7px 0; }
  .overview td { border:none; padding:0; }
  .run { white-space:normal; margin-top:3px; }
}
@media print { body { background:#fff; } .card { break-inside:avoid; border:none; } details { display:none; } }
"""
