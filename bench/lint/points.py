"""Read a tool's description: which of the four points it makes, in English or Chinese.

Patterns over clauses, no model: it sees how something is said, not whether it is true. What it gets
right and wrong on descriptions of other projects is measured in `datasets/lint`.
"""

import re
from typing import Literal, get_args

Point = Literal["what", "when", "when-not", "limits"]

POINTS: tuple[Point, ...] = get_args(Point)

_CUT = re.compile(r"(?<=[.!?])\s+|[。！？；;\n]+|(?<=[^\w\s])\s+-\s+|\[…\]|(?<=\.)(?=[A-Z一-鿿])")
_MARKUP = re.compile(r"[*#>|`_]{2,}|^[\s*#>\-–•\d.)]+(?=\D)|`")
_CLAUSE = re.compile(r"[,，:：]\s*")


def read_points(text: str) -> frozenset[Point]:
    """Return the points that a description makes.

    `what`: what the tool does or gives back. `when`: the situation, request or purpose to choose
    it for. `when-not`: a situation not to choose it in, or the tool to choose instead. `limits`:
    what bounds its result or effect (how much, which kinds, what it needs first, what it changes).
    """
    found: set[Point] = set()
    for sentence in split_sentences(text):
        found |= _read_sentence(sentence)
    return frozenset(found)


def split_sentences(text: str) -> list[str]:
    """Return the sentences and list items of a text, without markup."""
    pieces = (_MARKUP.sub("", piece).strip() for piece in _CUT.split(text))
    return [piece for piece in pieces if piece]


def _read_sentence(sentence: str) -> set[Point]:
    found: set[Point] = set()
    if _excludes(sentence):
        found.add("when-not")
    if _invites(sentence):
        found.add("when")
    if _bounds(sentence):
        found.add("limits")
    if _acts(sentence):
        found.add("what")
    return found


# ---------------------------------------------------------------- when not

_TOOL = r"(?:this|the|it|me)(?:\s+\w+)?(?:\s+(?:tool|function))?"
_NOT_EN = re.compile(
    rf"\b(?:do not|don't|never|avoid|not|should not|shouldn't|must not)\s+"
    rf"(?:to\s+)?(?:use|using|call|calling|invoke|trigger)\b(?:\s+(?:{_TOOL}|for|when|if|to|unless|on)\b|$)"
    r"|^(?:and\s+)?not\s+(?:for|to|meant|intended|suitable|suited|designed|recommended|needed)\b"
    r"|\bnot\s+(?:meant|intended|suitable|suited|designed|recommended|appropriate|needed|required)"
    r"\s+(?:for|to|when|if)\b"
    r"|\bnot\s+recommended\b|\bdeprecated\b|\bwhen\s+not\s+to\b|\bno\s+need\s+to\s+(?:use|call)\b"
    r"|\b(?:use|using|call|prefer)\s+(?!this\b|it\b)(?:the\s+)?[`'\"]?[\w.-]+[`'\"]?(?:\s+\w+){0,4}?\s+instead\b"
    r"|(?<!\bthis )(?<!\bit )\binstead\s+of\s+(?:this|using\s+this|the\s+\w+\s+tool)\b"
    r"|\bfor\b[^.]{0,60},\s*(?:use|call)\s+[`'\"]?\w+_\w+"
    r"|\bprefer\s+(?:using\s+|to\s+use\s+)(?:that|another|the|a)\b|\bprefer\s+(?:that|another)\b|\bshould\s+be\s+preferred\b"
    r"|\b(?:call|use|invoke|trigger)\b.*\bunless\b",
    re.IGNORECASE,
)
_NOT_ZH = re.compile(
    r"(?:不要|请勿|切勿|勿|禁止|避免|不得|不能|不可|不应|不该|不建议|严禁)(?:再|直接)?(?:使用|调用|用)"
    r"(?:此|本|该|它|这|于|来)"
    r"|(?<!可能)不(?:适)?用于|不适合|(?<!可能)不适用|不是用来|不推荐|(?:无需|不需要|不必)(?:使用|调用)"
    r"|(?:如需|若需|如果需要|需要)[^。]*?(?:请|应|则|可)(?:改)?(?:使?用|调用)"
    r"(?!此|本|该|它)"
    r"|改用|(?:应|请)优先(?:使用|调用)[^。，]*?而(?:不是|非)|而不是(?:使用)?(?:此|本|该)工具"
)


def _excludes(sentence: str) -> bool:
    return bool(_NOT_EN.search(sentence) or _NOT_ZH.search(sentence))


# ---------------------------------------------------------------- when

_WHEN_EN = re.compile(
    r"\b(?:use|call|invoke|run|trigger)\s+(?:of\s+)?(?:this|it|me|the)\b(?:\s+(?:tool|function))?"
    r"(?:\s+only)?\s+(?:for|when|whenever|if|to|before|after|in|instead|only|as|where)\b"
    r"|^(?:always\s+|only\s+)*use(?:d|r|ful)?\s+(?:only\s+)?(?:for|when|whenever|if|to|before)\b"
    r"|\b(?:only|always|must)\s+(?:use|call|invoke)\s+(?:this|it)\b"
    r"|\b(?:useful|helpful|ideal|best|great|perfect|good|suitable|suited|recommended|essential"
    r"|handy|intended|meant)\s+(?:for|when|if|to|in)\b"
    r"|\bcan\s+be\s+used\s+(?:to|for|when)\b|\bwhen\s+to\s+(?:use|call|search|invoke|run)\b"
    r"|\buse\s+cases?\b|\b(?:trigger|crawl|search|run)\b.*\bonly\s+if\b"
    r"|\bwhen(?:ever)?\s+(?:you|the\s+users?|a\s+user|users?|someone|somebody|asked)\b"
    r"|\bif\s+(?:the\s+|a\s+)?(?:users?|somebody|someone)\s+(?:asks?|wants?|says?|needs?|brings?)\b"
    r"|\b(?:preferred|primary|main)\s+(?:way|tool|method|choice)\b|\befficient\b.*\bwhen\s+you\b",
    re.IGNORECASE,
)
_WHEN_ZH = re.compile(
    r"(?:^|[，,、（(：:。])\s*(?:它|(?:本|此|该)(?:工具|接口))?(?:主要|可以?|只|仅|专门|常|通常|一般|此接口主要|该工具)*(?:应该)?(?:适)?用(?:于|来|在)"
    r"|适合(?:于)?(?:用|在|需要|查|处)|适用(?:于|场景)|使用(?:场景|时机|情景)|何时(?:使用|用)"
    r"|当(?:用户|你|您|需要|有人)|时(?:候)?(?:使)?用的(?:工具|接口)"
    r"|当(?!前|地|日|天|月|年|时)[^。]*?(?:时|时候|后|之前|之后|场景)"
    r"|(?:如果|若|只要|凡是|每当|需要)[^。]*?(?:就|则|应|请|可以?)(?:应该?|请|可以?|该)?(?:使用|调用|用)"
    r"|(?:在|给出|只在|仅在|要求)[^。，]*?(?:时|前|后|场景下|情况下)[^。，]{0,4}(?:使用|调用|用)"
    r"|(?:应该?|请|需)(?:优先)?(?:使用|调用)(?:此|本|该|它)|首选(?:方式|工具)|主要工具"
)


def _invites(sentence: str) -> bool:
    """Say whether some clause tells when to choose the tool, without denying it."""
    for clause in _without_denials(sentence):
        if _WHEN_EN.search(clause) or _WHEN_ZH.search(clause):
            return True
    return False


def _without_denials(sentence: str) -> list[str]:
    """Return the parts of a sentence that exclude nothing, the whole where none does."""
    if not _excludes(sentence):
        return [sentence]
    if re.search(r"\bunless\b", sentence, re.IGNORECASE):
        return [re.split(r"\bunless\b", sentence, flags=re.IGNORECASE)[0]]
    return []


# ---------------------------------------------------------------- limits

_LIMITS_EN = re.compile(
    r"\b(?:at\s+most|up\s+to|no\s+more\s+than|maximum|max\.?|limited\s+to|limit\s+of|minimum)\s"
    r"|\b(?:cannot|can't|can\s+not|does\s+not|doesn't|will\s+not|won't|unable\s+to|no\s+longer)\b"
    r"|\b(?:will|may|might)\s+(?:fail|exceed|be\s+truncated|time\s?out)\b|\bit\s+(?:opens|books)\b"
    r"|\b(?:truncated|skipped|rate[\s-]limit|quota|read-only|overwrit\w+|irreversibl\w+|permanent\w*)\b"
    r"|\b(?:really\s+sends|changes\s+the)\b|\bwithout\s+(?:warning|asking|confirmation)\b"
    r"|\bnot\s+(?:supported|available)\b|\bunsupported\b"
    r"|\b(?:requires?|needs)\s+(?:that|an?|the|to|login|authentication|\w+\s+(?:access|permission))\b"
    r"|\bmust\s+(?:first\s+)?(?:call|be\s+(?:from|in|within|called|installed|logged))\b(?!\s+this)"
    r"|\b(?:must|need\s+to)\s+(?:first\s+)?(?:log\s?in|authenticate)\b"
    r"|\b(?:reaches|covers|knows\s+about|knows)\s+(?:only\s+|about\s+)?[\w+]+"
    r"|\bbetween\s+\d+|\b(?:within|after)\s+\d+\s+\w+|\bexpires?\b|\bby\s+default\b.*\b\d{2,}|\bworks\s+only\b"
    r"|^no\s+\w+(?:,\s*\w+)+",
    re.IGNORECASE,
)
_ONLY_EN = re.compile(r"\b(?:only|supported\s+\w+\s*:)", re.IGNORECASE)
_CHOICE_EN = re.compile(
    r"\b(?:use|call|trigger|invoke|run)\b.*\bonly\b|\bonly\s+(?:use|call|if)\b", re.IGNORECASE
)
_LIMITS_ZH = re.compile(
    r"最多|至多|最长|最大|最小|最重|不(?:得|能|可)?超过|不得|上限|限制|限于|仅(?:支持|限|返回|能|可|前)"
    r"|只(?:支持|能|返回|限|有|包含|覆盖|读)|(?<!不会)覆盖|收录|尚且|暂(?:不|时)|无法|不会(?!覆盖|影响|改变|修改)|不支持|不返回|不知道"
    r"|不包含|不能|不可|不行|截断|会(?:改动|真正|删除|清空)|撤回|不可恢复"
    r"|需要(?:先|已|登录|授权|权限|设置|重新|快递)|(?:^|[（(，,])需(?:先|已|登录)|必须(?:先|已|给出)"
    r"|可能不|不保证|大于\s*\d|超出(?:限制|范围|部分|此)|间隔"
    r"|(?:^|[，,])\s*(?:也|并|但)?不(?:执行|修改|改变|创建|写入|包括|含|涉及|检查|修复|预报|打开|处理)"
)


def _bounds(sentence: str) -> bool:
    if _LIMITS_ZH.search(_NOT_ZH.sub("", sentence)):
        return True
    if _excludes(sentence) and not re.search(r"\bread-only\b|\bmax", sentence, re.IGNORECASE):
        return False
    if _LIMITS_EN.search(sentence) and not _is_about_failures(sentence):
        return True
    return bool(_ONLY_EN.search(sentence)) and not _CHOICE_EN.search(sentence)


def _is_about_failures(sentence: str) -> bool:
    """Say whether a sentence only says that something does no harm, or is about the model."""
    return bool(
        re.search(
            r"\b(?:won't|does not|doesn't|will not)\s+(?:stop|affect|touch)",
            sentence,
            re.IGNORECASE,
        )
    )


# ---------------------------------------------------------------- what

_VERB_WORDS = """
access add analyze answer append apply ask book build calculate call cancel change check
classify click close compare complete compress compute connect control convert copy count crawl
create debug decode delete describe detect determine display double-check download draw edit
encode encrypt estimate evaluate execute expand explain export extract fetch fill filter find
format generate get give grep identify import index insert inspect install invoke join launch
list load locate log look lookup make manage map match measure merge modify monitor move
navigate obtain offer open order parse pay perform place plan play post predict preview process
produce provide publish pull push put query quote rank read recommend record refresh register
remove rename render reorder replace reply report request reset resize resolve retrieve return
rewrite roll rollback rotate route run sample save scan schedule scrape scroll search select
send set share show simulate sort split stage start stop store submit subscribe suggest
summarize switch sync take tell test think trace track train transcribe transfer transform
translate type update upload upsert validate verify view visit wait watch work write
"""
_VERBS = frozenset(_VERB_WORDS.split())
_DETERMINER = r"(?:an?|the|all|any|one|your|this|each|every|multiple|several|new|given|specified)\b"
_RETURNS = re.compile(
    r"\b(?:returns?|returning|outputs?|gives?\s+back|yields?)\b\s+\w|\boutput\s+(?:is|will\s+be)\b"
    r"|\b(?:tool|function|api|service|wrapper)\s+(?:that|which|to)\s+(?:\w+\s+)?\w+s?\b"
    r"|\b(?:allows?|lets?|enables?)\s+(?:you|the\s+model|users?)\s+to\s+\w+",
    re.IGNORECASE,
)
_PURPOSE = re.compile(
    r"\b(?:use|call|invoke)\s+(?:this|it|the)?\s*(?:tool|function)?\s*to\s+(\w[\w-]*)"
    r"|\b(?:useful|used|tool)\s+(?:for|to)\s+(\w[\w-]*)|\bhelps\s+(?:you\s+|to\s+)*(\w+)|\byou\s+can\s+(\w+)"
    r"|\bwhen\s+you\s+want\s+to\s+(\w+)|\b(?:this|the)\s+(?:tool|function)\s+(?:\w+ly\s+)?(\w+)",
    re.IGNORECASE,
)
_BARE_NAME = re.compile(
    r"(?:(?!the\b|an?\b)[\w-]+\s+){0,4}(?:tool|api|function|service|wrapper)\W*|[^\s，,。：:]{0,8}(?:工具|接口|服务|函数|插件)\W*",
    re.IGNORECASE,
)
_ADVERB = re.compile(r"^(?:\w+ly|fast|quickly|recursively|request\s+to|please)\s+", re.IGNORECASE)
_ACTS_ZH = re.compile(
    r"(?:查询|查找|查看|获取|获得|取得|搜索|检索|计算|列出|读取|写入|创建|新建|删除|更新|修改|编辑|发送|发布|发表"
    r"|下载|上传|生成|转换|换算|追踪|跟踪|统计|检查|检测|校验|解析|提取|抽取|执行|运行|调用|返回|打开|关闭|插入"
    r"|替换|添加|增加|播放|翻译|提出|展示|显示|拆成|拆分|合并|比较|分析|识别|推荐|预测|规划|导出|导入|保存|存储"
    r"|回复|点赞|收藏|评论|提供|启动|停止|定位|记录|绘制|预订|取消|支付|登录|退订|汇总|总结|找到|找出|了解"
    r"|采集|抓取|访问|列举|设置|配置|整理|筛选|排序|改写|压缩|求解|评估|推送|订阅|同步|备份|恢复|分享|移动|复制"
    r"|安装|部署|重置|清空|清除|解除|绑定|申请|切换|将|把)"
    r"(?!工具|接口|服务|函数|插件|器|完整)[^\s，,。：:]{2,}"
)


def _acts(sentence: str) -> bool:
    """Say whether a sentence tells what the tool does or gives back."""
    if _BARE_NAME.fullmatch(sentence):
        return False
    if _acts_in_chinese(sentence):
        return True
    if _excludes(sentence):
        return False
    clauses = [sentence, *_CLAUSE.split(sentence)[1:2]]
    if any(_starts_with_action(clause) for clause in clauses):
        return True
    aims = (next(filter(None, found)) for found in _PURPOSE.findall(sentence))
    return bool(_RETURNS.search(sentence)) or any(_is_verb(word) for word in aims)


def _starts_with_action(clause: str) -> bool:
    clause = _ADVERB.sub("", clause.strip(" \"'-"))
    words = clause.split()
    if len(words) < 3 or _WHEN_EN.match(clause):
        return False
    first = words[0].strip("/").split("/")[0]
    known = _is_verb(first) and not re.match(r"(?:is|are|be|should|must|can)$", words[1])
    return known or bool(
        re.match(rf"[A-Za-z-]+(?:e?s)?\s+{_DETERMINER}", clause) and _looks_like_verb(first)
    )


def _looks_like_verb(word: str) -> bool:
    return word[:1].isupper() and word.endswith(("s", "ize", "ify", "ate")) and len(word) > 4


def _is_verb(word: str) -> bool:
    word = word.casefold()
    stems = {word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ing")}
    stems |= {f"{word.removesuffix('ing')}e", f"{word.removesuffix('ies')}y"}
    if word.endswith("ing") and len(word) > 6 and word[-4] == word[-5]:
        stems.add(word[:-4])
    return bool(stems & _VERBS) and word not in {"used", "useful"}


def _acts_in_chinese(sentence: str) -> bool:
    """Say whether some clause that sets no condition has an action and its object."""
    for clause in re.split(r"[，,]", _NOT_ZH.sub("不", sentence)):
        if re.match(r"\s*(?:当|如果|若|只要|凡是|每当|在|请勿|不)", clause) and not _ends_in_use(
            clause
        ):
            continue
        if _ACTS_ZH.search(clause):
            return True
    return False


def _ends_in_use(clause: str) -> bool:
    """Say whether a clause goes on after its condition, as in "在文件中插入内容"."""
    return bool(re.match(r"\s*在[^，,]*?(?:中|里|上|位置|目录)", clause))
