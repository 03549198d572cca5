# Read by login shells (`bash -l`), after /etc/profile has set PATH to the directories of the system: they find the programs that other
# commands of a session find.
case ":$PATH:" in
  *:/opt/himalia/bin:*) ;;
  *) PATH=/opt/himalia/bin:$PATH${PIP_TARGET:+:$PIP_TARGET/bin} ;;
esac
